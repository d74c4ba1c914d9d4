package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Stop stops the child with SIGSTOP, and waits until it has stopped, with all its threads: one
// that waits for a lock in the kernel may still be granted that before it looks at the signal.
func (c *Child) Stop() {
	c.t.Helper()
	c.signal(syscall.SIGSTOP)
	threads := "/proc/" + strconv.Itoa(c.Cmd.Process.Pid) + "/task/*/stat"
	Eventually(c.t, "the child stops", func() bool {
		all, err := filepath.Glob(threads)
		return err == nil && len(all) > 0 && !slices.ContainsFunc(all, func(stat string) bool { return stateIn(stat) != 'T' })
	})
}

// Continue has a child that was stopped go on.
func (c *Child) Continue() {
	c.t.Helper()
	c.signal(syscall.SIGCONT)
}

func (c *Child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.Cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// State is that of a process, as proc(5) names it; 0 if there is none.
func State(pid int) byte { return stateIn("/proc/" + strconv.Itoa(pid) + "/stat") }

func stateIn(file string) byte {
	stat, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return stat[bytes.LastIndexByte(stat, ')')+2]
}
