package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestHostileTextsReachNoTerminal: whoever can write a lock file, or name a
// folder, can't write to the terminal of whoever looks.
func TestHostileTextsReachNoTerminal(t *testing.T) { // guards: H6
	dir := filepath.Join(t.TempDir(), "evil\x1b[31m\nholdfast: all is well")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip("this system refuses such names itself: ", err)
	}
	path := filepath.Join(dir, "\u202e.lock")
	evil := "\x1b]0;owned\x07\u202e\u0085\nholdfast: free"
	claim, err := json.Marshal(map[string]any{
		"pid": 42, "created_at": "2999-01-15T10:30:00Z", "cmd": "rm" + evil, "hostname": "host" + evil,
		"boot_id": evil, "nonce": "n" + evil, "mode": evil,
	})
	testkit.Check(t, err)
	write(t, path, string(claim))
	for _, args := range [][]string{
		{"status", path}, {"list", dir}, {"break", path}, {"break", "--force", "x", path},
		{"run", "--try", path, "--", "true"}, {"run", "--timeout", "1ns", path, "--", "true"},
		{"status", path + "/x"}, {"list", path}, {"doctor", dir}, {"help", "\x1b"}, {"\x1b"}, {"run", path, "-\x1b"},
		{"run", filepath.Join(dir, "free"), "--", "no\x1bcommand"},
		{"break", "--force", "n" + evil, path},
	} {
		_, stdout, stderr := holdfast(t, args...)
		wantClean(t, stdout)
		wantClean(t, stderr)
		for line := range strings.Lines(stdout + stderr) {
			if strings.HasPrefix(line, "holdfast: free") || strings.HasPrefix(line, "holdfast: all is well") {
				t.Errorf("%q: a forged message: %s", args, line)
			}
		}
	}
}
