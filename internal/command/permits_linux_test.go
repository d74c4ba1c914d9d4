//go:build !portable

package command

import (
	"path/filepath"
	"strconv"
	"testing"
)

// TestRunPermits_Children: what a command leaves behind keeps the permit, and no other.
func TestRunPermits_Children(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	p := start(t, "run", "-permits", "2", "-label", "job", path, "--", "sh", "-c", leaving)
	worker := p.pidLine()
	code, _, stderr := p.finish()
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	wantText(t, stderr, "slots.permit-1.lock stays locked: pid "+strconv.Itoa(worker)+" (sleep)")
	two := holdPermit(t, path, "two")
	stdout, _ := wantCode(t, exitOK, "status", path)
	wantText(t, stdout, "permit 1  (pid "+strconv.Itoa(p.cmd.Process.Pid)+", job) has gone; its process "+strconv.Itoa(worker)+" (sleep) still has the lock",
		"permit 2  pid "+strconv.Itoa(two.cmd.Process.Pid))
	next := start(t, append([]string{"run", "-permits", "2", path, "--"}, role(t, "hold")...)...)
	next.await("waiting for")
	killPID(t, worker)
	next.expect("ready")
	for _, p := range []*process{two, next} {
		if code, _, stderr := p.finish(); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}

	p = start(t, "run", "-permits", "2", "-close", path, "--", "sh", "-c", leaving)
	p.pidLine()
	if code, _, stderr := p.finish(); code != 0 || stderr != "" {
		t.Errorf("with -close: exit code %d: %s", code, stderr)
	}
	stdout, _ = wantCode(t, exitOK, "status", path)
	wantNoText(t, stdout, "permit 1")
}
