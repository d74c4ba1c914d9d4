//go:build darwin || dragonfly || freebsd || linux || netbsd

package command

import (
	"os"
	"syscall"
	"unsafe"
)

// inForeground reports whether we and the process pid are both in the process
// group to which the controlling terminal sends its signals.
func inForeground(pid int) bool {
	ours := syscall.Getpgrp()
	if group, err := syscall.Getpgid(pid); err != nil || group != ours {
		return false
	}
	// O_NONBLOCK: opening must not wait for a modem's carrier.
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false // there is no controlling terminal
	}
	defer tty.Close()
	var foreground int32 // pid_t
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&foreground)))
	return errno == 0 && int(foreground) == ours
}
