//go:build unix && !linux

package platform

import (
	"golang.org/x/sys/unix"
)

// existence asks by kill(2) with signal 0, which sends nothing.
func existence(pid int) Liveness {
	switch unix.Kill(pid, 0) {
	case nil, unix.EPERM:
		return Exists
	case unix.ESRCH:
		if processesHidden() {
			return Uncertain
		}
		return Gone
	}
	return Uncertain
}

func exiting(int) bool { return false }

func programOf(int) string { return "" }
