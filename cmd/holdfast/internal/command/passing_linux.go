package command

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/platform"
)

// passing says why a process seems to be about to end, once what it has started has ended;
// "" if it does not, or it can't be told.
func passing(pid int) string {
	args := commandLine(pid)
	if len(args) == 0 {
		return ""
	}
	name := path.Base(args[0])
	switch {
	case slices.Contains([]string{"sudo", "doas", "su", "timeout", "time", "xargs", "strace", "holdfast"}, name):
		return "it is " + visible(name) + ", which ends with what it runs"
	case !isShell(name):
		return ""
	}
	for _, arg := range args[1:] {
		if !strings.HasPrefix(arg, "-") {
			break
		}
		if !strings.HasPrefix(arg, "--") && strings.Contains(arg, "c") {
			return "it runs one command line (" + visible(name) + " -c), as for a make recipe"
		}
	}
	if parent, _, ok := parentOf(pid); ok && isForkOf(pid, parent) {
		return "it is a part of the shell with pid " + strconv.Itoa(parent) + ", in $( ) or ( ) or a pipe"
	}
	return ""
}

// printsInto reports whether a process writes into the very pipe that our output goes into.
// Then it is not the one that reads it: a $( ) part of a shell, timeout(1), sudo.
func printsInto(pid int) bool {
	ours, err := os.Stdout.Stat()
	if err != nil || ours.Mode().Type() != os.ModeNamedPipe || platform.ProgramOf(pid) == "" {
		return false
	}
	theirs, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/fd/1")
	return err == nil && os.SameFile(ours, theirs)
}

// mayBeKeeper reports whether a process was started as a keeper, or can't be looked at. A claim
// may be forged, and a program may name an owner in its own.
func mayBeKeeper(pid int) bool {
	args := commandLine(pid)
	return len(args) == 0 || len(args) > 1 && args[1] == keeperName
}

func commandLine(pid int) []string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(line) == 0 || platform.ProgramOf(pid) == "" { // it knows whose /proc this is
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
}

// stat returns the fields of /proc/PID/stat behind the name, the state (3) first. Source:
// proc_pid_stat(5).
func stat(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// isForkOf reports whether a process is a copy of its parent that has executed no program
// since: its arguments lie at the same address, which the kernel draws by lot at each exec.
func isForkOf(pid, parent int) bool {
	const argStart, argEnd = 48, 49
	a, b := stat(pid), stat(parent)
	if len(a) <= argEnd-3 || len(b) <= argEnd-3 || a[argStart-3] == "0" {
		return false // they are not shown of other users' processes
	}
	return a[argStart-3] == b[argStart-3] && a[argEnd-3] == b[argEnd-3] && slices.Equal(commandLine(pid), commandLine(parent))
}
