//go:build !unix

package locktest

const canStop = false

func (c *child) stop()   {}
func (c *child) resume() {}
