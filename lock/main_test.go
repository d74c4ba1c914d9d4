package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// roleVar tells the test binary to play a part instead of running tests.
const roleVar = "HOLDFAST_TEST_ROLE"

// roles are what a child can be told to do. Each reads orders from standard
// input, a line each, and answers on standard output, a line each.
var roles = map[string]func(path string, orders *bufio.Scanner){
	"holder":    holder,
	"parker":    parker,
	"member":    member,
	"set-taker": setTaker,
	"tally":     tally,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		roles[role](os.Getenv("HOLDFAST_TEST_PATH"), bufio.NewScanner(os.Stdin))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// holder acquires and releases as it is told, and proves with a second oracle
// that it is alone: a file that only one can have created.
func holder(path string, orders *bufio.Scanner) {
	var held *lock.FileHold
	occupied := path + ".occupied"
	for orders.Scan() {
		switch orders.Text() {
		case "try":
			var err error
			held, err = lock.File{Path: path, Cmd: "holder"}.TryAcquire(context.Background())
			var locked *lock.ErrLocked
			switch {
			case errors.As(err, &locked):
				fmt.Println("locked")
			case err != nil:
				fmt.Println("error:", err)
			default:
				f, err := os.OpenFile(occupied, os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					fmt.Println("not alone:", err)
					continue
				}
				f.Close()
				fmt.Println("held")
			}
		case "release":
			if held == nil {
				fmt.Println("released")
				continue
			}
			os.Remove(occupied)
			if err := held.Release(); err != nil {
				fmt.Println("error:", err)
				continue
			}
			held = nil
			fmt.Println("released")
		}
	}
}

// parker acquires and releases, but stops for ever at the step that it is told
// first.
func parker(path string, orders *bufio.Scanner) {
	orders.Scan()
	at := orders.Text()
	reached := false
	held, err := lock.File{Path: path, Cmd: "parker"}.Park(func(step string) {
		if step == at && !reached {
			reached = true
			fmt.Println("parked")
			time.Sleep(time.Hour)
		}
	}).TryAcquire(context.Background())
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println("never parked:", held.Release())
}

// child is a process that plays a role.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	orders io.WriteCloser
	lines  *bufio.Scanner
}

func start(t *testing.T, role, path string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), roleVar+"="+role, "HOLDFAST_TEST_PATH="+path)
	c.cmd.Stderr = os.Stderr
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	return c
}

func (c *child) order(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.orders, line); err != nil {
		c.t.Fatalf("order %q: %v", line, err)
	}
}

func (c *child) answer() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("child went away without an answer (%v)", c.lines.Err())
	}
	return c.lines.Text()
}

func (c *child) expect(want string) {
	c.t.Helper()
	if got := c.answer(); got != want {
		c.t.Fatalf("child answered %q, want %q", got, want)
	}
}

// say orders, and returns the answer.
func (c *child) say(line string) string {
	c.t.Helper()
	c.order(line)
	return c.answer()
}

// do orders and expects.
func (c *child) do(line, want string) {
	c.t.Helper()
	c.order(line)
	c.expect(want)
}

// names lists what is in a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
