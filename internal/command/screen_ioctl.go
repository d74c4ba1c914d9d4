//go:build darwin || dragonfly || freebsd || linux || netbsd

package command

import (
	"os"
	"syscall"
	"unsafe"
)

// windowSize returns the size of a terminal in characters; false if the file is none.
func windowSize(tty *os.File) (width, height int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), int(size.rows), errno == 0
}

// watchSignals are those that end a watch, and those that its screen heeds.
func watchSignals() []os.Signal {
	signals := append(caughtSignals(), syscall.SIGWINCH)
	if catchStop {
		signals = append(signals, syscall.SIGTSTP)
	}
	return signals
}

// stops reports whether a signal stops this process.
func stops(s os.Signal) bool { return s == syscall.SIGTSTP }
