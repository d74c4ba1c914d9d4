package tests

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFlockKeepsOut: flock(1) of util-linux sees our kernel lock, and we see its.
func TestFlockKeepsOut(t *testing.T) { // guards: S5
	path := filepath.Join(t.TempDir(), ".lock")
	holder := background(t, exec.Command(holdfast, "run", path, "--", "sleep", "1000"))
	eventually(t, "holdfast run holds the lock", func() bool {
		code, _ := run(t, holdfast, "status", path)
		return code == 3
	})
	if code, out := run(t, "flock", "-n", path+".flock", "true"); code != 1 {
		t.Errorf("flock -n on a held lock: exit %d (%s), want 1", code, out)
	}
	holder.Process.Kill()
	holder.Wait()
	if code, out := run(t, "flock", "-w", "60", path+".flock", "true"); code != 0 {
		t.Errorf("flock after the holder's death: exit %d (%s), want 0", code, out)
	}
}

func TestKeptOutByFlock(t *testing.T) { // guards: S5
	path := filepath.Join(t.TempDir(), ".lock")
	started := path + ".started"
	holder := background(t, exec.Command("flock", "--no-fork", path+".flock", "sh", "-c", "touch "+started+"; exec sleep 1000"))
	eventually(t, "flock holds the lock", func() bool { return exists(started) })
	if code, out := run(t, holdfast, "run", "--try", path, "--", "true"); code != 75 {
		t.Errorf("run -try while flock(1) has the lock: exit %d (%s), want 75", code, out)
	}
	if code, out := run(t, holdfast, "status", path); code != 3 {
		t.Errorf("status while flock(1) has the lock: exit %d (%s), want 3", code, out)
	}
	holder.Process.Kill()
	holder.Wait()
	if code, out := run(t, holdfast, "run", "--timeout", "1m", path, "--", "true"); code != 0 {
		t.Errorf("run after flock(1) is gone: exit %d (%s), want 0", code, out)
	}
}
