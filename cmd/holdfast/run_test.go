package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

// runArgs is a call of "holdfast run" with a role as the command.
func runArgs(t *testing.T, path, name string, args ...string) []string {
	t.Helper()
	return append([]string{"run", path, "--"}, role(t, name, args...)...)
}

func TestRunExitsWithCommandsStatus(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".lock")
	for _, code := range []int{0, 1, 7, 75, 255} {
		wantCode(t, code, runArgs(t, path, "exit", strconv.Itoa(code))...)
	}
	_, stderr := wantCode(t, exitNotFound, "run", path, "--", "no-such-command-here")
	wantText(t, stderr, "no-such-command-here", "not found")
	wantCode(t, exitNotFound, "run", path, "--", filepath.Join(dir, "absent"))
	wantCode(t, exitCannotRun, "run", path, "--", dir)
	write(t, filepath.Join(dir, "plain"), "text\n")
	wantCode(t, exitCannotRun, "run", path, "--", filepath.Join(dir, "plain"))
	wantCode(t, exitOK, "status", path)
	wantCode(t, exitError, runArgs(t, filepath.Join(dir, "plain", ".lock"), "exit", "0")...)
	_, stderr = wantCode(t, exitError, runArgs(t, filepath.Join(dir, "absent", ".lock"), "exit", "0")...)
	wantText(t, stderr, "absent", "make it first")
}

func TestRunTellsCommandOfLockAndFence(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.lock")
	fences := make([]int64, 2)
	for i := range fences {
		cmd := child(t, runArgs(t, "a.lock", "env")...)
		cmd.Dir = dir
		cmd.Env = append(cmd.Env, lockVar+"=stale", fenceVar+"=stale")
		code, stdout, stderr := startCommand(t, cmd).finish()
		got := strings.Fields(stdout)
		if code != 0 || len(got) != 2 {
			t.Fatalf("exit code %d, output %q %q", code, stdout, stderr)
		}
		if same, err := filepath.EvalSymlinks(filepath.Dir(got[0])); err != nil || !filepath.IsAbs(got[0]) || same != mustEval(t, dir) {
			t.Errorf("%s=%s, want %s", lockVar, got[0], path)
		}
		fence, err := strconv.ParseInt(got[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		fences[i] = fence
	}
	if fences[0] <= 0 || fences[1] <= fences[0] {
		t.Errorf("fences %v do not grow", fences)
	}
}

func mustEval(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunInheritsStdio(t *testing.T) {
	p := start(t, runArgs(t, filepath.Join(t.TempDir(), ".lock"), "stdio")...)
	if _, err := p.stdin.Write([]byte("through\n")); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := p.finish(); code != 0 || stdout != "through\n" || stderr != "to stderr\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestRunIsRefusedWhileHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	holder := holdLock(t, path)
	for _, flags := range [][]string{{"-try"}, {"-timeout", "0"}, {"-timeout", "1ns"}, {"-timeout", "20ms"}} {
		args := append(append([]string{"run"}, flags...), path, "--")
		stdout, stderr := wantCode(t, exitNotHad, append(args, role(t, "env")...)...)
		if stdout != "" {
			t.Errorf("%v: the command ran: %s", flags, stdout)
		}
		wantText(t, stderr, "holdfast: "+path, "pid "+strconv.Itoa(holder.cmd.Process.Pid), "the holder", "since", "kernel lock held")
	}
	if code, _, stderr := holder.finish(); code != 0 {
		t.Errorf("the holder ended with %d: %s", code, stderr)
	}
	// With the lock free, no time at all is enough.
	wantCode(t, exitOK, append([]string{"run", "-timeout", "1ns", path, "--"}, role(t, "exit", "0")...)...)
}

// TestRunDoesNotWaitForWhatIsNoLock: a link at the path (a trap, perhaps) is told at
// once, and left alone.
func TestRunDoesNotWaitForWhatIsNoLock(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	_, stderr := wantCode(t, exitNotHad, runArgs(t, link, "exit", "0")...)
	wantText(t, stderr, link+" is locked", "not a lock file", "move it away")
	wantFile(t, link, true)
}

// TestFolderIsNoLock: it is wrong use, in whatever form it is given, and no reason to
// wait, nor an answer.
func TestFolderIsNoLock(t *testing.T) {
	dir := t.TempDir()
	folder, link := filepath.Join(dir, "folder"), filepath.Join(dir, "link")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, folder + "/", folder + "/.", link, link + "/", ".", ".."} {
		for _, args := range [][]string{
			{"run", path, "--", "true"}, {"run", "-try", path, "--", "true"}, {"run", "-timeout", "1h", path, "--", "true"},
			{"status", path}, {"status", "-json", path}, {"break", path}, {"break", "-force", "N", path},
		} {
			stdout, stderr := wantCode(t, exitUsage, args...)
			wantText(t, stderr, "is a folder", "usage:")
			if stdout != "" {
				t.Errorf("%q: standard output is not for messages: %s", args, stdout)
			}
		}
	}
	if got := names(t, folder); got != "" {
		t.Errorf("left behind: %s", got)
	}
}

// TestConflictExitCode: what a command's own code can be is the caller's to know.
func TestConflictExitCode(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	holder := holdLock(t, path)
	for _, code := range []string{"0", "1", "75", "255"} {
		want, _ := strconv.Atoi(code)
		for _, how := range [][]string{{"-try"}, {"-timeout", "1ns"}} {
			args := append([]string{"run", "-conflict-exit-code", code}, append(how, path, "--")...)
			stdout, stderr := wantCode(t, want, append(args, role(t, "env")...)...)
			wantText(t, stderr, "the command was not run")
			if stdout != "" {
				t.Errorf("the command ran: %s", stdout)
			}
		}
	}
	for _, code := range []string{"-1", "256", strconv.Itoa(exitLost), "many"} {
		wantCode(t, exitUsage, "run", "-conflict-exit-code", code, path, "--", "true")
	}
	holder.finish()
	wantCode(t, 75, append([]string{"run", "-conflict-exit-code", "7", path, "--"}, role(t, "exit", "75")...)...)
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
	if got, want := names(t, filepath.Dir(path)), ".lock.flock"; got != want {
		t.Errorf("left behind: %s; want only %s", got, want)
	}
}

func TestWaitIsToldAgainOnlyOfAnotherHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	var stderr bytes.Buffer
	a := &app{stderr: &stderr}
	w := waitNotice{file: lock.File{Path: path}}
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
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
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
		if got := a.letGo(held, c.command, false); got != c.want {
			t.Errorf("command's %d became %d, want %d", c.command, got, c.want)
		}
		wantText(t, stderr.String(), "lost /fake", "own exit code was "+strconv.Itoa(c.command))
	}
	a, stderr := &app{}, &bytes.Buffer{}
	a.stderr = stderr
	if got := a.letGo(&fakeHold{release: errors.New("no such device")}, 0, false); got != exitError {
		t.Errorf("exit code %d, want %d", got, exitError)
	}
	wantText(t, stderr.String(), "no such device")
}

// fakeHold is a lock that can be lost at will.
type fakeHold struct {
	lost    chan struct{}
	release error
}

func (h *fakeHold) Path() string          { return "/fake" }
func (h *fakeHold) Fence() (int64, error) { return 1, nil }
func (h *fakeHold) Lost() <-chan struct{} { return h.lost }
func (h *fakeHold) Release() error        { return h.release }

func TestCommandIsEndedWhenLockIsLost(t *testing.T) {
	t.Setenv(mainVar, "1")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	// A file, as the command gets it too.
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	a := &app{stdout: write, stderr: stderr}
	held := &fakeHold{lost: make(chan struct{}), release: lock.ErrLost}
	go func() { // lose it once the command runs
		read.Read(make([]byte, 1))
		close(held.lost)
	}()
	code, lost := a.supervise(role(t, "stuck"), held, nil)
	write.Close()
	if !lost || code == endedByItself {
		t.Errorf("lost: %v, exit code %d; want the loss noticed, and the command ended", lost, code)
	}
	if code = a.letGo(held, code, lost); code != exitLost {
		t.Errorf("exit code %d, want %d", code, exitLost)
	}
	told, err := os.ReadFile(stderr.Name())
	if got := strings.Count(string(told), "lost /fake"); got != 1 || err != nil {
		t.Errorf("told %d times (%v), want once:\n%s", got, err, told)
	}
}
