package command

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/permits"
)

// holdPermit has a holdfast hold one of two permits until its input ends.
func holdPermit(t *testing.T, path, label string, flags ...string) *process {
	t.Helper()
	args := append([]string{"run", "--permits", "2", "--label", label}, flags...)
	p := start(t, append(append(args, path, "--"), role(t, "hold")...)...)
	p.expect("ready")
	return p
}

// TestRunPermits: whoever comes when all are out waits, is told who has them, and has the first
// that comes free, whichever that is; then comes the next.
func TestRunPermits(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "slots.lock")
	one, two := holdPermit(t, path, "one"), holdPermit(t, path, "two")
	run := append([]string{"run", "--permits", "2", "--label", "next", path, "--"}, role(t, "hold")...)
	next := start(t, run...)
	next.await("waiting for a permit of " + path)
	next.await(": two, since ")
	wantText(t, next.output(), "  permit 1  pid "+strconv.Itoa(one.cmd.Process.Pid), "  permit 2  pid "+strconv.Itoa(two.cmd.Process.Pid))
	_, stderr := wantCode(t, exitNotHad, "run", "--permits", "2", "--try", path, "--", "true")
	wantText(t, stderr, "no permit of "+path+" is free; the command was not run", "before us pid "+strconv.Itoa(next.cmd.Process.Pid), "wants a permit: next")
	stdout, _ := wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, "wants a permit: next", "permit 1 ", "permit 2 ")

	if code, _, stderr := two.finish(); code != 0 || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	next.expect("ready")
	stdout, _ = wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, ": one, since ", ": next, since ")
	last := start(t, run...)
	one.finish()
	last.expect("ready")
	for _, p := range []*process{next, last} {
		if code, _, stderr := p.finish(); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
	if got, want := testkit.Names(t, dir), "slots.lock.flock slots.permit-1.lock.flock slots.permit-2.lock.flock"; got != want {
		t.Errorf("left behind: %s; want %s", got, want)
	}
}

// TestRunPermits_Killed: who was killed has given back theirs, whether they waited or worked.
func TestRunPermits_Killed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	one, two := holdPermit(t, path, "one"), holdPermit(t, path, "two")
	run := append([]string{"run", "--permits", "2", path, "--"}, role(t, "hold")...)
	first, second := start(t, run...), start(t, run...)
	first.await("waiting for")
	second.await("waiting for")
	first.cmd.Process.Kill()
	two.cmd.Process.Kill()
	second.expect("ready")
	wantCode(t, exitNotHad, "run", "--permits", "2", "--try", path, "--", "true")
	for _, p := range []*process{one, second} {
		if code, _, stderr := p.finish(); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
	holdPermit(t, path, "three", "--try")
	holdPermit(t, path, "four", "--try")
}

// TestRunPermits_SamePool: a program that uses the library on a lock.Dir has the same permits.
func TestRunPermits_SamePool(t *testing.T) {
	dir := lock.Dir{Path: t.TempDir()}
	pool := permits.New(dir, lock.Key{Space: "build", Name: "slots"}, 2)
	held, err := pool.Acquire(t.Context())
	testkit.Check(t, err)
	path := filepath.Join(dir.Path, "build", "slots.lock")
	other := holdPermit(t, path, "the other")
	if _, err := pool.TryAcquire(t.Context()); err == nil || !strings.Contains(err.Error(), "the other") {
		t.Errorf("error is %v", err)
	}
	wantCode(t, exitNotHad, "run", "--permits", "2", "--try", path, "--", "true")
	testkit.Check(t, held.Release())
	other.finish()
}

// TestRunPermits_LongLabel: what a lock file takes, its gate takes.
func TestRunPermits_LongLabel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	label := strings.Repeat("x", maxGateLabel)
	wantCode(t, exitOK, append([]string{"run", "--label", label, path, "--"}, role(t, "exit", "0")...)...)
	wantCode(t, exitOK, append([]string{"run", "--permits", "1", "--label", label, path, "--"}, role(t, "exit", "0")...)...)
}

// TestRunPermits_Obstacle: what is no lock file is not waited for.
func TestRunPermits_Obstacle(t *testing.T) {
	for _, name := range []string{"slots.lock", "slots.permit-1.lock"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, name), "my thesis")
		path := filepath.Join(dir, "slots.lock")
		_, stderr := wantCode(t, exitNotHad, "run", "--try", "--permits", "1", path, "--", "true")
		wantText(t, stderr, "no permit of "+path)
		testkit.Check(t, os.Remove(filepath.Join(dir, name)))
		err := os.Symlink("elsewhere", filepath.Join(dir, name))
		if err == nil {
			_, err = os.Readlink(filepath.Join(dir, name)) // Wine makes none, and no error
		}
		if err != nil {
			t.Skip("needs symbolic links, to have one in the way: ", err)
		}
		_, stderr = wantCode(t, exitNotHad, "run", "--permits", "1", path, "--", "true")
		wantText(t, stderr, "no permit of "+path)
	}
}
