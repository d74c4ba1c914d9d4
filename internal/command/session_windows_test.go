package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// sessions gives a test a lock. Keepers share no folder.
func sessions(t *testing.T) (path string) {
	t.Helper()
	return filepath.Join(t.TempDir(), "a.lock")
}

// wantUnreachable: nobody listens for a session.
func wantUnreachable(t *testing.T, nonce string) {
	t.Helper()
	if c, err := dialSession(nonce); err != errNoSession {
		t.Errorf("somebody listens for session %s: %v, %v", nonce, c, err)
	}
}

// TestHold_KeeperKilled: a keeper that is killed leaves a lock that the next one takes over.
func TestHold_KeeperKilled(t *testing.T) {
	path := sessions(t)
	s := begin(t, path)
	keeper, err := os.FindProcess(s.KeeperPID)
	testkit.Check(t, err)
	testkit.Check(t, keeper.Kill())
	wantExit(t, s.keeper)
	_, stderr := wantCode(t, exitEnded, "renew", path, s.Nonce)
	wantText(t, stderr, "this session has ended", "dead")
	s.wantEnded()
}
