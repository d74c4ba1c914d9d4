//go:build unix

package locktest

import (
	"syscall"
)

const canStop = true

// stop stops the child, and returns when it stands still.
func (c *child) stop() {
	c.s.Helper()
	pid := c.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		c.s.Fatal("stop: ", err)
	}
	c.s.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || !status.Stopped():
			c.s.Fatalf("child did not stop: %v, %#x", err, status)
		default:
			return
		}
	}
}

func (c *child) resume() {
	c.s.Helper()
	if err := syscall.Kill(c.cmd.Process.Pid, syscall.SIGCONT); err != nil {
		c.s.Fatal("resume: ", err)
	}
}
