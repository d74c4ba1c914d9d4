package claims_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
)

// TestHostileFiles: what is not a claim is an error that names it, for its own node
// and no other; it is not removed, and nothing waits for it.
func TestHostileFiles(t *testing.T) {
	contents := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	const times = `"acquired_at":"2024-01-15T10:30:00Z","expires_at":"2024-01-15T10:35:00Z"`
	for name, create := range map[string]func(path string) error{
		"garbage":       contents("\x00\xff{"),
		"empty":         contents(""),
		"null":          contents("null"),
		"array":         contents("[]"),
		"no owner":      contents(`{"node_id":"1",` + times + `}`),
		"null owner":    contents(`{"node_id":"1","owner":null,` + times + `}`),
		"other node":    contents(`{"node_id":"2","owner":"a",` + times + `}`),
		"no acquired":   contents(`{"node_id":"1","owner":"a","expires_at":"2024-01-15T10:35:00Z"}`),
		"no expiry":     contents(`{"node_id":"1","owner":"a","acquired_at":"2024-01-15T10:30:00Z"}`),
		"backwards":     contents(`{"node_id":"1","owner":"a","acquired_at":"2024-01-15T10:30:00Z","expires_at":"2024-01-15T10:29:00Z"}`),
		"wrong types":   contents(`{"node_id":1,"owner":["a"],` + times + `}`),
		"no time":       contents(`{"node_id":"1","owner":"a","acquired_at":"noon","expires_at":"tomorrow"}`),
		"huge":          contents(`{"node_id":"1","owner":"` + strings.Repeat("a", 1<<20) + `",` + times + `}`),
		"fifo":          func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"symlink":       func(path string) error { return os.Symlink("/etc/passwd", path) },
		"dangling link": func(path string) error { return os.Symlink("nowhere", path) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, c, m := proof(t)
			path := lockFile(dir, "1")
			check(t, errors.Join(os.Mkdir(filepath.Dir(path), 0o755), create(path)))
			before, _ := os.Lstat(path)
			_, err := m.Claim(t.Context(), "1", "a")
			namesFile(t, "Claim", err, path)
			_, err = m.Refresh(t.Context(), "1", "a")
			namesFile(t, "Refresh", err, path)
			namesFile(t, "Release", m.Release(t.Context(), "1", "a"), path)
			_, _, err = m.IsClaimed("1")
			namesFile(t, "IsClaimed", err, path)

			claim(t, m, "2", "a")
			if active, err := m.Active(); err != nil || len(active) != 1 {
				t.Errorf("active: %v, %v", active, err)
			}
			if _, ok, err := m.IsClaimed("3"); ok || err != nil {
				t.Errorf("another node: %v, %v", ok, err)
			}
			c.add(time.Hour)
			if ended, err := m.Reap(t.Context()); err != nil || len(ended) != 1 {
				t.Errorf("reaped: %v, %v", ended, err)
			}
			wantStory(t, dir, "acquired 2 a", "reaped 2 a")
			after, err := os.Lstat(path)
			that(t, err == nil && os.SameFile(before, after) && before.Size() == after.Size(), "it was touched: %v", err)
			check(t, os.RemoveAll(path))
			claim(t, m, "1", "a")
		})
	}
}

func namesFile(t *testing.T, what string, err error, path string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), path) || errors.Is(err, claims.ErrFiles) {
		t.Errorf("%s: %v; want an error that names %s", what, err, path)
	}
}

// TestTimeoutNotRegular: a meta.json that can't be read is an error, at once.
func TestTimeoutNotRegular(t *testing.T) {
	for name, create := range map[string]func(path string) error{
		"fifo":      func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"symlink":   func(path string) error { return os.Symlink("/dev/zero", path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"huge":      func(path string) error { return os.WriteFile(path, make([]byte, 2<<20), 0o644) },
	} {
		dir, _, m := proof(t)
		path := filepath.Join(dir, "meta.json")
		check(t, create(path))
		if _, err := m.Claim(t.Context(), "1", "a"); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		that(t, !exists(filepath.Join(dir, "ledger")), "%s: something was written", name)
	}
}
