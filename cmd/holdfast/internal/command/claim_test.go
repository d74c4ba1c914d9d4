package command

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestClaimReapEvery: it waits for a claim to expire, and tells then.
func TestClaimReapEvery(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "meta.json"), `{"lock_timeout":"1s"}`)
	taken, _ := wantCode(t, exitOK, "claim", "take", "--owner", "me", dir, "1.3")
	reaper := start(t, "claim", "reap", "--every", "10ms", dir)
	reaper.expect(strings.TrimSpace(taken))
	if out, _ := wantCode(t, exitOK, "claim", "reap", dir); out != "" {
		t.Errorf("reaped twice: %q", out)
	}
}
