package command

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestRunSeveral: all or none, in one order for all.
func TestRunSeveral(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "1.lock"), filepath.Join(dir, "2.lock")
	p := start(t, append([]string{"run", "--also", two, one, "--"}, role(t, "env")...)...)
	code, stdout, stderr := p.finish()
	got := strings.Fields(stdout)
	if code != 0 || stderr != "" || len(got) != 4 || filepath.Base(got[0]) != "1.lock" || filepath.Base(got[1]) != "2.lock" {
		t.Fatalf("exit code %d, %q, %s", code, got, stderr)
	}
	for _, fence := range got[2:] {
		if n, err := strconv.ParseInt(fence, 10, 64); err != nil || n <= 0 {
			t.Errorf("fence %q", fence)
		}
	}
	holder := holdLock(t, two)
	for _, args := range [][]string{{"--try"}, {"--timeout", "0"}, {"--timeout", "1ns"}, {"--timeout", "20ms"}} {
		_, stderr := wantCode(t, exitNotHad, append(append(append([]string{"run"}, args...), "--also", one, two, "--"), role(t, "env")...)...)
		wantText(t, stderr, "2.lock", "the command was not run", "pid "+strconv.Itoa(holder.cmd.Process.Pid))
	}
	wantCode(t, exitOK, "status", one)
	next := start(t, append([]string{"run", "--also", two, one, "--"}, role(t, "hold")...)...)
	next.await("waiting for " + two)
	holder.finish()
	next.expect("ready")
	wantCode(t, exitHeld, "status", one)
	wantCode(t, exitHeld, "status", two)
	// With the exit code of success, too, nothing is run without the locks.
	if stdout, _ := wantCode(t, 0, append([]string{"run", "--try", "--conflict-exit-code", "0", "--also", one, two, "--"}, role(t, "env")...)...); stdout != "" {
		t.Errorf("the command ran: %s", stdout)
	}
	if code, _, stderr := next.finish(); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if got, want := testkit.Names(t, dir), "1.lock.flock 2.lock.flock"; got != want {
		t.Errorf("left behind: %s; want only %s", got, want)
	}
	wantCode(t, exitOK, append([]string{"run", "--timeout", "1ns", "--also", one, two, "--"}, role(t, "exit", "0")...)...)
}

// TestRunSeveral_LineBreak: what would split HOLDFAST_LOCK is refused, and nothing touched;
// of one lock it is as good a path as any.
func TestRunSeveral_LineBreak(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a\nb")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip("needs a system that allows such names: ", err)
	}
	run := func(locks ...string) *process {
		args := []string{"run"}
		for _, also := range locks[1:] {
			args = append(args, "--also", also)
		}
		cmd := child(t, append(append(args, locks[0], "--"), role(t, "env")...)...)
		cmd.Dir = dir
		return startCommand(t, cmd)
	}
	for _, locks := range [][]string{{"1.lock", "2.lock"}, {"1.lock", filepath.Join(t.TempDir(), "2\n.lock")}} {
		code, stdout, stderr := run(locks...).finish()
		if code != exitUsage || stdout != "" {
			t.Errorf("exit code %d, %s", code, stdout)
		}
		wantText(t, stderr, "line break", `\n`)
	}
	if got := testkit.Names(t, dir); got != "" {
		t.Errorf("%s were made", got)
	}
	code, stdout, stderr := run("1.lock").finish()
	if code != exitOK || !strings.HasSuffix(strings.Split(stdout, "/1.lock\n")[0], "a\nb") {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
}

// TestRunShared: readers are together, and have no fence.
func TestRunShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	first := start(t, append([]string{"run", "--shared", path, "--"}, role(t, "hold")...)...)
	first.expect("ready")
	if !isShared(t, path) {
		t.Skip("needs a system with shared locks, to have readers together")
	}
	cmd := child(t, append([]string{"run", "--shared", "--try", path, "--"}, role(t, "env")...)...)
	cmd.Env = append(cmd.Env, fenceVar+"=7")
	code, stdout, stderr := startCommand(t, cmd).finish()
	if got := strings.Split(stdout, "\n"); code != 0 || len(got) != 3 || got[1] != "" {
		t.Errorf("exit code %d, %q, %s; want no fence", code, got, stderr)
	}
	wantCode(t, exitNotHad, append([]string{"run", "--try", path, "--"}, role(t, "env")...)...)
	if code, _, stderr := first.finish(); code != 0 || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	wantCode(t, exitOK, "status", path)
}

func isShared(t *testing.T, path string) bool {
	t.Helper()
	stdout, _ := wantCode(t, exitHeld, "status", "--json", path)
	return strings.Contains(stdout, `"shared":true`)
}

// TestRunQuiet: standard error has nothing of ours, and all of the command's.
func TestRunQuiet(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	p := start(t, append([]string{"run", "--quiet", path, "--"}, role(t, "stderr")...)...)
	if code, _, stderr := p.finish(); code != 0 || stderr != "to stderr\n" {
		t.Errorf("exit code %d, standard error %q", code, stderr)
	}
	holder := holdLock(t, path)
	for want, args := range map[int][]string{
		exitNotHad:   {"--try", path, "--", "true"},
		exitNotFound: {path + "2", "--", "no-such-command-here"},
		exitError:    {filepath.Join(path, "absent"), "--", "true"},
	} {
		if _, stderr := wantCode(t, want, append([]string{"run", "--quiet"}, args...)...); stderr != "" {
			t.Errorf("%q said: %s", args, stderr)
		}
	}
	holder.finish()
}

// TestRunStaleAfter: the caller says how old what proves nothing may be.
func TestRunStaleAfter(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	claim := strings.Replace(foreign, "2999", "2024", 1)
	write(t, path, claim)
	wantCode(t, exitNotHad, "run", "--try", "--stale-after", "never", path, "--", "true")
	wantCode(t, exitNotHad, "run", "--try", "--stale-after", "1000000h", path, "--", "true")
	wantCode(t, exitOK, append([]string{"run", "--try", "--stale-after", "1s", path, "--"}, role(t, "exit", "0")...)...)
	old := time.Now().Add(-time.Hour)
	write(t, path, "what is no claim")
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	wantCode(t, exitNotHad, "run", "--try", path, "--", "true")
	wantCode(t, exitOK, append([]string{"run", "--try", "--stale-after", "1m", path, "--"}, role(t, "exit", "0")...)...)
}
