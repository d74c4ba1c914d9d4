package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// line reads the next line of standard output.
func (p *process) line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("standard output ended; standard error:\n%s", p.output())
	}
	return p.lines.Text()
}

// TestWatch_Lines: a line for each change, from what is there at first.
func TestWatch_Lines(t *testing.T) {
	dir := t.TempDir()
	a, b, dead := filepath.Join(dir, "a.lock"), filepath.Join(dir, "b.lock"), filepath.Join(dir, "dead.lock")
	dieHolding(t, dead)
	write(t, b, foreign)
	p := start(t, "watch", "--interval", "5ms", dir, a, filepath.Join(dir, "no", "c.lock"))
	// In between, a process that is being killed leaves the lock to what it has started.
	next := func(event, path, text string) {
		t.Helper()
		for {
			line := p.line()
			wantClean(t, line)
			fields := strings.Fields(line)
			if _, err := time.Parse(time.RFC3339, fields[0]); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if fields[1] == event && filepath.Base(fields[2]) == filepath.Base(path) && strings.Contains(line, text) {
				return
			}
		}
	}
	next("unknown", b, "pid 42 on elsewhere: far away")
	next("dead", dead, "the holder")
	next("free", a, "")
	p.await("c.lock") // can't be read; said once
	holder := holdLock(t, a)
	next("held", a, fmt.Sprintf("pid %d on ", holder.cmd.Process.Pid))
	testkit.Check(t, os.Remove(b))
	next("free", b, "")
	if _, err := platform.ListKernelLocks(); err == nil {
		waiter := start(t, "run", a, "--", "true")
		next("waiting", a, fmt.Sprintf("pid %d (", waiter.cmd.Process.Pid))
		waiter.cmd.Process.Kill()
		waiter.finish()
	}
	holder.cmd.Process.Kill()
	holder.finish()
	next("dead", a, "the holder")
	wantCode(t, exitOK, "break", a)
	next("free", a, "")
	if n := strings.Count(p.output(), "c.lock"); n != 1 {
		t.Errorf("%d messages:\n%s", n, p.output())
	}
}

// TestWatch_JSON: the same, each line like that of status.
func TestWatch_JSON(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.lock")
	holder := holdLock(t, path)
	cmd := child(t, "watch", "--json", "--interval", "5ms")
	cmd.Dir = dir
	p := startCommand(t, cmd)
	var c change
	testkit.Check(t, json.Unmarshal([]byte(p.line()), &c))
	if c.Event != "held" || filepath.Base(c.Path) != "a.lock" || c.Info == nil || c.Info.PID != holder.cmd.Process.Pid || c.At.IsZero() {
		t.Errorf("%+v", c)
	}
	holder.finish()
	c = change{}
	testkit.Check(t, json.Unmarshal([]byte(p.line()), &c))
	if c.Event != "free" || c.State != evidence.Free || c.Info != nil {
		t.Errorf("%+v", c)
	}
}

func TestWatch_WrongUse(t *testing.T) {
	for _, args := range [][]string{{"--interval", "0"}, {"--interval", "x"}, {"--colour"}} {
		_, stderr := wantCode(t, exitUsage, append([]string{"watch"}, args...)...)
		wantText(t, stderr, "holdfast help watch")
	}
}

// TestWatch_Changes: what counts as a change.
func TestWatch_Changes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, "")
	held := func(pid int) lock.Status {
		return lock.Status{Path: path, State: evidence.Held, Info: &evidence.Claim{PID: pid, Nonce: fmt.Sprint(pid)}}
	}
	waited := held(1)
	waited.Waiters = []lock.Process{{PID: 7}}
	both := waited
	both.Waiters = []lock.Process{{PID: 7}, {PID: 8}}
	left := lock.Status{Path: path, State: evidence.Held, Gone: held(1).Info, Processes: []lock.Process{{PID: 5}, {PID: 6}}}
	less := left
	less.Processes = left.Processes[:1]
	readers := lock.Status{Path: path, State: evidence.Held, Shared: true, Processes: []lock.Process{{PID: 5}}}
	more := readers
	more.Processes = left.Processes
	free := lock.Status{Path: path, State: evidence.Free}
	failed := []error{os.ErrPermission}

	var stdout, stderr strings.Builder
	c := changes{app: &app{stdout: &stdout, stderr: &stderr}, last: map[string]lock.Status{}}
	for i, step := range []struct {
		look look
		want string // events
	}{
		{look{locks: []lock.Status{held(1)}}, "held"},
		{look{locks: []lock.Status{held(1)}}, ""},
		{look{locks: []lock.Status{waited}}, "waiting"},
		{look{locks: []lock.Status{both}}, "waiting"},
		{look{errs: failed}, ""}, // not gone, but not seen
		{look{locks: []lock.Status{both}}, ""},
		{look{locks: []lock.Status{left}}, "held"},
		{look{locks: []lock.Status{less}}, ""},
		{look{locks: []lock.Status{readers}}, "held"},
		{look{locks: []lock.Status{more}}, ""},
		{look{locks: []lock.Status{held(2)}}, "held"},
		{look{locks: []lock.Status{free}}, "free"},
		{look{}, ""},
		{look{locks: []lock.Status{held(3)}}, "held"},
		{look{}, "free"},
		{look{}, ""},
	} {
		stdout.Reset()
		testkit.Check(t, c.show(step.look))
		var events []string
		for line := range strings.Lines(stdout.String()) {
			events = append(events, strings.Fields(line)[1])
		}
		if got := strings.Join(events, " "); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}
