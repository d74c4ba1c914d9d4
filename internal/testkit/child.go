package testkit

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// roleVar tells the test binary to play a role instead of running tests.
const roleVar = "HOLDFAST_TEST_ROLE"

// Main is a TestMain: it runs the tests, as Run does, or, in a process that Command has
// prepared, play.
func Main(m *testing.M, play func(role string, args []string)) {
	Play(play)
	os.Exit(Run(m))
}

// Play returns at once, unless this process is to play a role. Then it does not return.
func Play(play func(role string, args []string)) {
	if role := Role(); role != "" {
		play(role, os.Args[1:])
		os.Exit(0)
	}
}

// Role is the one that this process is to play, and "" if it runs tests.
func Role() string { return os.Getenv(roleVar) }

// childrenVar names a folder with test binaries that play the roles in place of those that run
// the tests. They are built without the race detector: with it a process takes several times as
// long to start. tests/all.go sets it.
const childrenVar = "HOLDFAST_TEST_CHILDREN"

// Command prepares the test binary to play a role.
func Command(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv(childrenVar); dir != "" {
		exe = filepath.Join(dir, filepath.Base(exe))
	}
	cmd := exec.Command(exe, args...)
	// The race detector would have each process sleep for a second at its end.
	cmd.Env = append(os.Environ(), roleVar+"="+role, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.Stderr = os.Stderr
	return cmd
}

// A Child is a process that is told what to do, and answers, a line each.
type Child struct {
	Cmd *exec.Cmd

	t      testing.TB
	orders io.WriteCloser
	lines  chan string // closed when it says no more
}

// Start starts a child in a role. It is killed when the test ends.
func Start(t testing.TB, role string, args ...string) *Child {
	t.Helper()
	return StartCommand(t, Command(t, role, args...))
}

// StartCommand starts a child that was prepared. It is killed when the test ends.
func StartCommand(t testing.TB, cmd *exec.Cmd) *Child {
	t.Helper()
	c := &Child{Cmd: cmd, t: t, lines: make(chan string)}
	var err error
	if c.orders, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(c.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case c.lines <- lines.Text():
			case <-over:
				return
			}
		}
	}()
	t.Cleanup(sync.OnceFunc(func() {
		close(over)
		c.Kill()
	}))
	return c
}

// Kill ends the child with SIGKILL, and waits until it has gone.
func (c *Child) Kill() {
	c.Cmd.Process.Kill()
	c.Cmd.Wait()
}

// End closes the child's input, reads what it says still, and returns how it ended.
func (c *Child) End() error {
	c.orders.Close()
	for range c.lines {
	}
	return c.Cmd.Wait()
}

// Order tells the child to do something, and does not wait for the answer.
func (c *Child) Order(order string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.orders, order); err != nil {
		c.t.Fatalf("order %q: %v", order, err)
	}
}

// Line waits for what the child says next. It is false if it is gone, or says nothing.
func (c *Child) Line() (line string, ok bool) {
	select {
	case line, ok = <-c.lines:
		return line, ok
	case <-time.After(Patience):
		return "", false
	}
}

// Answer waits for what the child says next.
func (c *Child) Answer() string {
	c.t.Helper()
	line, ok := c.Line()
	if !ok {
		c.t.Fatal("the child is gone, or hangs, without an answer")
	}
	return line
}

// Expect waits for an answer that is to be this.
func (c *Child) Expect(want string) {
	c.t.Helper()
	if got := c.Answer(); got != want {
		c.t.Fatalf("the child answered %q, want %q", got, want)
	}
}

// Say orders, and returns the answer.
func (c *Child) Say(order string) string {
	c.t.Helper()
	c.Order(order)
	return c.Answer()
}

// Do orders, and expects.
func (c *Child) Do(order, want string) {
	c.t.Helper()
	c.Order(order)
	c.Expect(want)
}
