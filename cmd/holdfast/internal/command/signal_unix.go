//go:build unix

package command

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// caughtSignals are the signals that end a wait, or whatever else goes on until one comes.
//
// SIGQUIT is among them because a terminal sends it to holdfast and the command, and
// holdfast must not die of it.
//
// SIGHUP stays ignored where it was so at the start (nohup). SIGINT does not: a shell
// without job control has its background commands ignore it, but one that is sent to
// holdfast's pid is meant to be heard.
func caughtSignals() []os.Signal {
	caught := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) {
		caught = append(caught, syscall.SIGHUP)
	}
	return caught
}

// endsWait reports whether a signal ends a wait for the lock. The others are meant for
// a command, which does not run yet.
func endsWait(s os.Signal) bool {
	return slices.Contains([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGABRT}, s)
}

// runSignals are those that "holdfast run" catches: all that can be caught, as tini and
// dumb-init do, so that a signal to holdfast reaches the command. Not these:
//
//   - SIGCHLD is about our own children. SIGURG and SIGIO may be our own doing: Go's
//     run-time interrupts its threads with SIGURG, and the kernel sends SIGIO for a
//     lease, which package platform takes for an instant.
//   - SIGPROF is Go's profiler's, and comes to nobody else.
//   - SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS and SIGEMT are our own faults.
//   - SIGTTIN and SIGTTOU come from the kernel, to the whole group of a process that uses the
//     terminal in the background. They stop us together with the command.
func runSignals() []os.Signal {
	const sigEMT = 7 // SIGBUS on Linux
	own := []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGIO, syscall.SIGPROF,
		syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS, sigEMT,
		syscall.SIGTTIN, syscall.SIGTTOU}
	last := syscall.Signal(31)
	if runtime.GOOS == "linux" {
		last = 64 // real-time signals; Go leaves 32 to 34 to the C library
	}
	var caught []os.Signal
	for s := syscall.Signal(1); s <= last; s++ {
		switch {
		case slices.Contains(own, s), s == syscall.SIGHUP && signal.Ignored(s), s == syscall.SIGTSTP && !catchStop:
		default:
			caught = append(caught, s)
		}
	}
	return caught
}

// signalNumber is what a shell adds to 128.
func signalNumber(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}

// forward hands a signal on to the command.
//
// What a terminal sends on Ctrl-C, Ctrl-\ and Ctrl-Z goes to every process of its
// foreground group, so the command has it already. It must not have it twice:
// many programs clean up at the first SIGINT and drop everything at the second.
//
// SIGPIPE and SIGXFSZ come of what we write ourselves. They are caught so that a
// message which nobody reads, or a full log, does not end us, and the command with us.
func forward(command *os.Process, s os.Signal) {
	switch s {
	case syscall.SIGPIPE, syscall.SIGXFSZ:
		return
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP:
		if inForeground(command.Pid) {
			return
		}
	}
	_ = command.Signal(s) // it fails only when the command has ended
}

// terminate asks the command to end.
func terminate(command *os.Process) { _ = command.Signal(syscall.SIGTERM) }

// exitCode is the command's status as a shell gives it.
func exitCode(e *exec.ExitError) int {
	if status, ok := e.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return e.ExitCode()
}

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
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == ours
}

// ownerOnly has fn make files that only their owner may use, from the first moment: a
// socket that is changed afterwards can be reached by others until then. The mask is the
// whole process's.
func ownerOnly(fn func()) {
	mask := syscall.Umask(0o177)
	defer syscall.Umask(mask)
	fn()
}
