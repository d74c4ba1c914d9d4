package testkit

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Stop stops the child with SIGSTOP, and waits until it has stopped.
func (c *Child) Stop() {
	c.t.Helper()
	c.signal(syscall.SIGSTOP)
	Eventually(c.t, "the child stops", func() bool { return State(c.Cmd.Process.Pid) == 'T' })
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
func State(pid int) byte {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	return stat[bytes.LastIndexByte(stat, ')')+2]
}
