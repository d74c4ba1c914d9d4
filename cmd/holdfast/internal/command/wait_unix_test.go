//go:build unix

package command

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestWait_Signals: a wait tells who is in the way, and ends at a signal.
func TestWait_Signals(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	holder := holdLock(t, path)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := apart(t, "wait", path)
		p.await("waiting for " + path)
		p.await("the holder")
		p.signal(s)
		if code, stdout, stderr := p.finish(); code != exitSignal+int(s) || stdout != "" {
			t.Errorf("exit code %d, %s%s", code, stdout, stderr)
		}
	}
	p := start(t, "wait", path)
	p.await("waiting for " + path)
	holder.finish()
	if code, _, stderr := p.finish(); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	wantFile(t, path, false)
}
