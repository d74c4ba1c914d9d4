//go:build !portable

package command

import (
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// TestRunPermits_Children: what a command leaves behind keeps the permit, and no other.
func TestRunPermits_Children(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	p := start(t, "run", "--permits", "2", "--label", "job", path, "--", "sh", "-c", leaving)
	worker := p.pidLine()
	code, _, stderr := p.finish()
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	wantText(t, stderr, "slots.permit-1.lock stays locked: pid "+strconv.Itoa(worker)+" (sleep)")
	two := holdPermit(t, path, "two")
	stdout, _ := wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, "permit 1  (pid "+strconv.Itoa(p.cmd.Process.Pid)+", job) has gone; its process "+strconv.Itoa(worker)+" (sleep) still has the lock",
		"permit 2  pid "+strconv.Itoa(two.cmd.Process.Pid))
	next := start(t, append([]string{"run", "--permits", "2", path, "--"}, role(t, "hold")...)...)
	next.await("waiting for")
	killPID(t, worker)
	next.expect("ready")
	for _, p := range []*process{two, next} {
		if code, _, stderr := p.finish(); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}

	p = start(t, "run", "--permits", "2", "--close", path, "--", "sh", "-c", leaving)
	p.pidLine()
	if code, _, stderr := p.finish(); code != 0 || stderr != "" {
		t.Errorf("with --close: exit code %d: %s", code, stderr)
	}
	stdout, _ = wantCode(t, exitOK, "status", path)
	wantNoText(t, stdout, "permit 1")
}

// TestRunPermits_Stopped: a Ctrl-Z to who waits for all permits keeps nobody back; who goes on
// is the last, and has not lost the time that was given.
func TestRunPermits_Stopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	run := func(flags ...string) []string {
		return append(append(append([]string{"run", "--permits", "1"}, flags...), path, "--"), role(t, "hold")...)
	}
	holder := start(t, run()...)
	holder.expect("ready")
	cmd := child(t, run("--timeout", "1h")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as in TestStopped
	first := startCommand(t, cmd)
	first.await("waiting for a permit")
	first.signal(syscall.SIGTSTP)
	awaitState(t, strconv.Itoa(cmd.Process.Pid), "T")
	second := start(t, run()...)
	second.await("waiting for a permit")
	holder.finish()
	second.expect("ready")
	first.signal(syscall.SIGCONT)
	awaitState(t, strconv.Itoa(cmd.Process.Pid), "RS")
	wantCode(t, exitNotHad, "run", "--permits", "1", "--try", path, "--", "true")
	second.finish()
	first.expect("ready")
	if code, _, stderr := first.finish(); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
