//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// caughtSignals are those that end a wait, and are handed on to the command.
//
// SIGQUIT is among them for the sake of what it means to a command: a terminal
// sends it to both, and it must not be holdfast that dies of it.
//
// SIGHUP stays ignored where it was so at the start (nohup). SIGINT does not: a
// shell without job control has its background commands ignore it, but who sends
// it to holdfast's pid wants it heard.
func caughtSignals() []os.Signal {
	caught := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) {
		caught = append(caught, syscall.SIGHUP)
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
// What a terminal sends on Ctrl-C and Ctrl-\ goes to every process of its
// foreground group, so the command has it already. It must not have it twice:
// many programs clean up at the first SIGINT and drop everything at the second.
func forward(command *os.Process, s os.Signal) {
	if (s == syscall.SIGINT || s == syscall.SIGQUIT) && inForeground(command.Pid) {
		return
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
