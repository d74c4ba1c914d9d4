//go:build !unix

package command

import (
	"os"
	"os/exec"
)

// caughtSignals are those that end a wait for the lock. While the command runs
// they are caught so that holdfast outlives the command.
func caughtSignals() []os.Signal { return []os.Signal{os.Interrupt} }

func runSignals() []os.Signal { return caughtSignals() }

func endsWait(os.Signal) bool { return true }

// suspend does nothing: no signal stops a process here.
func suspend(os.Signal) {}

func stopsUs(os.Signal) bool { return false }

// signalNumber is SIGINT's on Unix.
func signalNumber(os.Signal) int { return 2 }

// forward does nothing: a console's Ctrl-C goes to each of its processes, the
// command among them, and no process can send it to just one other.
func forward(*os.Process, os.Signal) {}

// terminate ends the command: there is no way to ask.
func terminate(command *os.Process) { _ = command.Kill() }

// ownerOnly does nothing: there is no mask, and the folder's rights decide.
func ownerOnly(fn func()) { fn() }

func exitCode(e *exec.ExitError) int {
	if code := e.ExitCode(); code >= 0 {
		return code
	}
	return exitError
}
