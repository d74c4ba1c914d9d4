//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package platform

import "time"

func booted() time.Time { return time.Time{} }
