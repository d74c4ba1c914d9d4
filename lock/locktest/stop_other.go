//go:build !unix

package locktest

func (c *child) stop() {
	c.s.Helper()
	c.s.Skip("needs a system with SIGSTOP, to stop a process")
}

func (c *child) resume() {}
