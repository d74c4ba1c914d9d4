//go:build !(darwin || dragonfly || freebsd || linux || netbsd)

package command

import "os"

// windowSize: the standard library has no way here to ask a terminal. So a watch writes lines.
func windowSize(*os.File) (width, height int, ok bool) { return 0, 0, false }

func watchSignals() []os.Signal { return caughtSignals() }

func stops(os.Signal) bool { return false }
