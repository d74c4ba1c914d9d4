//go:build unix && !linux

package command

import "os"

// catchStop: SIGTSTP is left to the kernel, which stops us. Sent to holdfast alone, it
// does not reach the command.
const catchStop = false

func stopsUs(os.Signal) bool { return false }

func suspend(os.Signal) {}
