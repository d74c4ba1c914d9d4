//go:build aix || dragonfly || openbsd || solaris

package platform

import "syscall"

// birth is unknown: stat(2) has no such field on AIX, DragonFly and Solaris, and
// OpenBSD's stat(2) documents none, though its structure reserves room.
func birth(*syscall.Stat_t) int64 { return 0 }
