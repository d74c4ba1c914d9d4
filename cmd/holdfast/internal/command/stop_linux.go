package command

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// catchStop reports whether SIGTSTP can be caught and still stop us: see suspend.
const catchStop = true

// stopsUs reports whether suspend stops us for a signal.
func stopsUs(s os.Signal) bool { return s == syscall.SIGTSTP }

// suspend stops us for SIGTSTP as the kernel would if it were not caught: until somebody
// sends SIGCONT, and not at all in an orphaned process group, which nobody could continue.
//
// signal.Reset does not bring the kernel's own action back (Go 1.26), so that is set for
// the moment. A sigaction of zeros is SIG_DFL on every architecture. The signal goes to
// this very thread: the process has been stopped, and continued, when tgkill returns.
func suspend(s os.Signal) {
	if !stopsUs(s) {
		return
	}
	size := uintptr(8) // of the kernel's sigset_t
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		size = 16
	}
	var byDefault, ours [64]byte
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP),
		uintptr(unsafe.Pointer(&byDefault)), uintptr(unsafe.Pointer(&ours)), size, 0, 0)
	if errno != 0 {
		return
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGTSTP))
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP),
		uintptr(unsafe.Pointer(&ours)), 0, size, 0, 0)
}
