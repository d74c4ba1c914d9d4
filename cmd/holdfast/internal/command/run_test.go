package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// runArgs is a call of "holdfast run" with a role as the command.
func runArgs(t *testing.T, path, name string, args ...string) []string {
	t.Helper()
	return append([]string{"run", path, "--"}, role(t, name, args...)...)
}

// TestRunWaits: it says whom it waits for, and goes ahead when they are done.
func TestRunWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	holder := holdLock(t, path)
	next := start(t, runArgs(t, path, "hold")...)
	next.await("waiting for " + path)
	next.await("next ") // the last line of the message
	wantText(t, next.output(), "pid "+strconv.Itoa(holder.cmd.Process.Pid), "the holder", "kernel lock held")
	if code, _, _ := holder.finish(); code != 0 {
		t.Errorf("the holder ended with %d", code)
	}
	next.expect("ready")
	if code, _, _ := next.finish(); code != 0 {
		t.Errorf("the next one ended with %d", code)
	}
	if got, want := testkit.Names(t, filepath.Dir(path)), ".lock.flock"; got != want {
		t.Errorf("left behind: %s; want only %s", got, want)
	}
}

// TestFenceOutOfReason: a fence that nobody can follow is shown, and keeps run and hold from
// beginning: with the file and the cure, and without a lock that stays. The cure helps.
func TestFenceOutOfReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	sibling := path + ".flock"
	for _, content := range []string{"\x00\x0009223372036854775807\n", "no fence, and of some length\n"} {
		write(t, sibling, content)
		stdout, _ := wantCode(t, exitOK, "status", path)
		shown := strings.Contains(stdout, "  fence     9223372036854775807, which is out of all reason")
		if _, stderr := wantCode(t, exitOK, "status", "--json", path); shown != (content[0] == 0) || stderr != "" {
			t.Errorf("of %q status says %q", content, stdout)
		}
		for _, args := range [][]string{runArgs(t, path, "exit", "0"), {"hold", path}} {
			stdout, stderr := wantCode(t, exitError, args...)
			wantText(t, stderr, sibling+": ", "remove this file while nobody has the lock")
			if stdout != "" {
				t.Errorf("%s prints %q", args[0], stdout)
			}
			if got := testkit.Names(t, filepath.Dir(path)); got != ".lock.flock" {
				t.Errorf("%s leaves %s", args[0], got)
			}
		}
		testkit.Check(t, os.Remove(sibling))
		stdout, _ = wantCode(t, exitOK, runArgs(t, path, "env")...)
		fence := strings.Fields(stdout)[1]
		stdout, _ = wantCode(t, exitOK, "status", path)
		wantText(t, stdout, "  fence     "+fence+"\n")
		stdout, _ = wantCode(t, exitOK, "status", "--json", path)
		wantText(t, stdout, `"fence":`+fence+"}")
		testkit.Check(t, os.Remove(sibling))
	}
}

func TestWaitIsToldAgainOnlyOfAnotherHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	var stderr bytes.Buffer
	a := &app{stderr: &stderr}
	w := waitNotice{at: files{}, name: path}
	tell := func() int {
		a.tellWait(t.Context(), &w)
		return strings.Count(stderr.String(), "waiting for")
	}
	steps := []struct {
		claim string
		want  int
	}{
		{foreign, 1},
		{foreign, 1},
		{strings.Replace(foreign, `"nonce"`, `"renewed_at":"2999-01-15T10:30:01Z","nonce"`, 1), 1},
		{strings.Replace(foreign, "N0NCE", "OTHER", 1), 2},
		{`{"pid":2147483647,"created_at":"2024-01-15T10:30:00Z"}`, 2}, // dead: about to be ours
	}
	for i, s := range steps {
		write(t, path, s.claim)
		if got := tell(); got != s.want {
			t.Errorf("step %d: told %d times, want %d\n%s", i, got, s.want, stderr.String())
		}
	}
	testkit.Check(t, os.Remove(path))
	if got := tell(); got != 2 {
		t.Errorf("told of a free lock:\n%s", stderr.String())
	}
}

// TestRunWhoseLockFileIsTaken: the loss is found at the end. It has a code of its own,
// whatever the command's is.
func TestRunWhoseLockFileIsTaken(t *testing.T) {
	for _, c := range []struct{ command, want int }{{0, exitLost}, {3, exitLost}, {75, exitLost}} {
		a, stderr := &app{}, &bytes.Buffer{}
		a.stderr = stderr
		held := &fakeHold{release: lock.ErrLost}
		if got := a.letGo(&fileWords, []hold{held}, c.command, false); got != c.want {
			t.Errorf("command's %d became %d, want %d", c.command, got, c.want)
		}
		wantText(t, stderr.String(), "lost /fake", "own exit code was "+strconv.Itoa(c.command))
	}
	a, stderr := &app{}, &bytes.Buffer{}
	a.stderr = stderr
	if got := a.letGo(&fileWords, []hold{&fakeHold{release: errors.New("no such device")}}, 0, false); got != exitError {
		t.Errorf("exit code %d, want %d", got, exitError)
	}
	wantText(t, stderr.String(), "no such device")
	if got := a.letGo(&fileWords, []hold{&fakeHold{release: errors.New("no such device")}}, 3, false); got != 3 {
		t.Errorf("exit code %d, want the command's own, 3", got)
	}
}

// late is where locks are looked at when the time for that is over.
type late struct {
	locks
	err error // of a try
}

func (l late) acquire(ctx context.Context, _ []string, _, try bool) ([]hold, error) {
	if try {
		return nil, l.err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestRunLate: a limit that had passed before the look is told of like one that passed in the wait.
func TestRunLate(t *testing.T) {
	o := runOptions{timed: true, timeout: 1}
	_, err := o.acquire(t.Context(), late{err: &lock.LockedError{}}, 0)
	var locked *lock.LockedError
	if !errors.As(err, &locked) || !errors.Is(err, lock.ErrTimeout) || locked.Waited != o.timeout {
		t.Errorf("error is %v", err)
	}
	_, err = o.acquire(t.Context(), late{err: &lock.LockedError{Status: lock.Status{}, Cause: lock.ErrReentrant}}, 0)
	if !errors.Is(err, lock.ErrReentrant) || errors.Is(err, lock.ErrTimeout) {
		t.Errorf("error is %v", err)
	}
}

// TestRunAfter: a wait that begins anew has what is left of its time, and no more.
func TestRunAfter(t *testing.T) {
	o := runOptions{timed: true, timeout: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := o.acquire(ctx, late{err: &lock.LockedError{}}, 2*time.Hour); !errors.Is(err, lock.ErrTimeout) {
		t.Errorf("error is %v", err)
	}
}

// TestRunLost: a command that succeeds, though its lock file was removed by a hand, has
// not succeeded under its lock; and nobody got in.
func TestRunLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	holder := holdLock(t, path)
	testkit.Check(t, os.Remove(path))
	wantCode(t, exitNotHad, append([]string{"run", "--try", path, "--"}, role(t, "exit", "0")...)...)
	if _, err := platform.ListKernelLocks(); err == nil { // it takes the kernel's list to know without a lock file
		wantCode(t, exitHeld, "status", path)
	}
	code, _, stderr := holder.finish()
	if code != exitLost {
		t.Errorf("the holder ended with %d, want %d", code, exitLost)
	}
	wantText(t, stderr, "lost "+path)
}

// fakeHold is a lock that can be lost at will.
type fakeHold struct {
	lost    chan struct{}
	release error
}

func (h *fakeHold) Path() string                            { return "/fake" }
func (h *fakeHold) Fence() (int64, error)                   { return 1, nil }
func (h *fakeHold) Lost() <-chan struct{}                   { return h.lost }
func (h *fakeHold) Attach(*exec.Cmd) error                  { return errors.ErrUnsupported }
func (h *fakeHold) Environ(env []string) []string           { return env }
func (h *fakeHold) LeaveToChildren() (bool, error)          { return false, h.release }
func (h *fakeHold) Predecessor() (*lock.Predecessor, error) { return nil, nil }

func TestCommandIsEndedWhenLockIsLost(t *testing.T) {
	t.Setenv(mainVar, "1")
	read, write, err := os.Pipe()
	testkit.Check(t, err)
	defer read.Close()
	// A file, as the command gets it too.
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	testkit.Check(t, err)
	defer stderr.Close()
	a := &app{stdout: write, stderr: stderr}
	held := &fakeHold{lost: make(chan struct{}), release: lock.ErrLost}
	go func() { // lose it once the command runs
		read.Read(make([]byte, 1))
		close(held.lost)
	}()
	code, lost := a.supervise(runOptions{command: role(t, "stuck"), stderr: stderr}, &fileWords, nil, []hold{held}, nil)
	write.Close()
	if !lost || code == endedByItself {
		t.Errorf("lost: %v, exit code %d; want the loss noticed, and the command ended", lost, code)
	}
	if code = a.letGo(&fileWords, []hold{held}, code, lost); code != exitLost {
		t.Errorf("exit code %d, want %d", code, exitLost)
	}
	told, err := os.ReadFile(stderr.Name())
	if got := strings.Count(string(told), "lost /fake"); got != 1 || err != nil {
		t.Errorf("told %d times (%v), want once:\n%s", got, err, told)
	}
}
