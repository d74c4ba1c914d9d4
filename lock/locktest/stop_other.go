//go:build !unix || solaris || aix

package locktest

func (c *child) stop() {
	c.s.Helper()
	c.s.Skip("needs a system where package syscall can wait for a process to stop")
}

func (c *child) resume() {}
