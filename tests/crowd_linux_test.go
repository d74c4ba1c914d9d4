package tests

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// A crowd is processes that do the same, each of which is replaced when it is killed.
type crowd struct {
	t      *testing.T
	launch func(i int) *exec.Cmd
	all    []*one
	had    int64
	lost   int64
}

// one is a process of a crowd, with what it has said so far.
type one struct {
	cmd       *exec.Cmd
	had, lost atomic.Int64
	ended     chan struct{} // it says no more
}

func newCrowd(t *testing.T, n int, launch func(i int) *exec.Cmd) *crowd {
	c := &crowd{t: t, launch: launch}
	for i := range n {
		c.all = append(c.all, c.start(i))
	}
	return c
}

func (c *crowd) start(i int) *one {
	c.t.Helper()
	o := &one{cmd: c.launch(i), ended: make(chan struct{})}
	out := must(o.cmd.StdoutPipe())(c.t)
	check(c.t, o.cmd.Start())
	c.t.Cleanup(func() {
		o.cmd.Process.Kill()
		<-o.ended
		o.cmd.Wait()
	})
	go o.listen(out)
	return o
}

func (o *one) listen(out io.Reader) {
	defer close(o.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch lines.Text() {
		case "+":
			o.had.Add(1)
		case "lost":
			o.lost.Add(1)
		}
	}
}

// killOne kills any of them, and starts another in its place.
func (c *crowd) killOne() {
	c.t.Helper()
	i := rand.IntN(len(c.all))
	c.kill(c.all[i])
	c.all[i] = c.start(i)
}

func (c *crowd) kill(o *one) {
	c.t.Helper()
	o.cmd.Process.Kill()
	<-o.ended
	if err := o.cmd.Wait(); !strings.Contains(fmt.Sprint(err), "killed") {
		c.t.Errorf("a process ended by itself: %v", err)
	}
	c.had += o.had.Load()
	c.lost += o.lost.Load()
}

// allGoOn waits until each of them has had what it wants once more.
func (c *crowd) allGoOn() {
	c.t.Helper()
	for i, o := range c.all {
		before := o.had.Load() + o.lost.Load()
		eventually(c.t, fmt.Sprintf("process %d goes on", i), func() bool { return o.had.Load()+o.lost.Load() > before })
	}
}

// end kills all of them, and tells what came of it.
func (c *crowd) end() (had, lost int64) {
	c.t.Helper()
	for _, o := range c.all {
		c.kill(o)
	}
	c.all = nil
	return c.had, c.lost
}
