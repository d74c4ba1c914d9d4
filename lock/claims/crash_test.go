package claims_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
)

// A crash between the event and the file leaves a ledger that has the change, and the
// files as they were before. The tests module kills at that moment;
// here the same state is made by hand.

// TestCrashOfClaim: the claim counts though its file is missing, or is that of the
// one before; whatever is done next, even if it is refused, puts it right.
func TestCrashOfClaim(t *testing.T) {
	for name, next := range map[string]func(*claims.Manager) error{
		"reap":         func(m *claims.Manager) error { _, err := m.Reap(t.Context()); return err },
		"another node": func(m *claims.Manager) error { _, err := m.Claim(t.Context(), "2", "b"); return err },
		"refused": func(m *claims.Manager) error {
			if _, err := m.Claim(t.Context(), "1", "b"); !errors.Is(err, claims.ErrClaimed) {
				return errors.Join(errors.New("not refused"), err)
			}
			return nil
		},
	} {
		for _, old := range []bool{false, true} {
			dir, c, m := proof(t)
			if old { // an expired claim of somebody else came before
				claim(t, m, "1", "z")
				c.add(claims.DefaultLifetime)
			}
			before, _ := os.ReadFile(lockFile(dir, "1"))
			claim(t, m, "1", "a")
			check(t, os.Remove(lockFile(dir, "1")))
			if old {
				write(t, lockFile(dir, "1"), string(before))
			}
			// A writer that died while it wrote the file leaves this behind.
			write(t, filepath.Join(dir, "locks", ".1.lock.holdfast-tmp"), "{")

			m = manager(dir, c) // another process
			if got, ok, err := m.IsClaimed("1"); err != nil || !ok || got.Owner != "a" {
				t.Errorf("%s: claimed: %v, %v, %v", name, got, ok, err)
			}
			n := len(events(t, dir))
			noErr(t, next(m), name)
			if got := inFiles(t, dir); !maps.EqualFunc(got, replay(t, dir), same) {
				t.Errorf("%s: files: %v, want %v", name, got, replay(t, dir))
			}
			for _, e := range events(t, dir)[n:] {
				that(t, e.NodeID != "1", "%s: a second event: %v", name, e)
			}
		}
	}
}

// TestCrashOfEnd: after a release, or a reaping, that left the file, the node is free
// and no second event is written, whoever comes next.
func TestCrashOfEnd(t *testing.T) {
	for _, foreigner := range []bool{false, true} {
		for name, end := range map[string]func(*claims.Manager, *clock) error{
			"release": func(m *claims.Manager, _ *clock) error { return m.Release(t.Context(), "1", "a") },
			"reap": func(m *claims.Manager, c *clock) error {
				c.add(claims.DefaultLifetime)
				_, err := m.Reap(t.Context())
				return err
			},
		} {
			dir, c, m := proof(t)
			if foreigner {
				foreign(t, dir, "1", "a", c.at, c.at.Add(claims.DefaultLifetime))
			} else {
				claim(t, m, "1", "a")
			}
			left := read(t, lockFile(dir, "1"))
			check(t, end(m, c))
			write(t, lockFile(dir, "1"), left)
			n := len(events(t, dir))

			m = manager(dir, c)
			if got, ok, err := m.IsClaimed("1"); ok || err != nil {
				t.Errorf("%s: claimed: %v, %v", name, got, err)
			}
			wantErr(t, m.Release(t.Context(), "1", "a"), claims.ErrNotOwned, name, "released again")
			that(t, !exists(lockFile(dir, "1")), "%s: a refused release did not repair the file", name)
			write(t, lockFile(dir, "1"), left)
			if ended, err := m.Reap(t.Context()); err != nil || len(ended) != 0 || exists(lockFile(dir, "1")) {
				t.Errorf("%s: reaped %v, %v; the file is there: %v", name, ended, err, exists(lockFile(dir, "1")))
			}
			if got := len(events(t, dir)); got != n {
				t.Errorf("%s: %d events more", name, got-n)
			}
			write(t, lockFile(dir, "1"), left)
			got := claim(t, m, "1", "b")
			if !same(inFiles(t, dir)["1"], got) {
				t.Errorf("%s: the file is %v", name, inFiles(t, dir))
			}
		}
	}
}

// TestLeftTwice: the file of a claim that ended outlives a later claim by somebody
// else, whose files could not be written either. It is a leftover still.
func TestLeftTwice(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "1", "a")
	left := read(t, lockFile(dir, "1"))
	check(t, m.Release(t.Context(), "1", "a"))
	c.add(1)
	claim(t, m, "1", "b")
	check(t, m.Release(t.Context(), "1", "b"))
	write(t, lockFile(dir, "1"), left)
	for _, m := range []*claims.Manager{m, manager(dir, c)} {
		if got, ok, err := m.IsClaimed("1"); ok || err != nil {
			t.Errorf("the claim of %q is back: %v", got.Owner, err)
		}
	}
	claim(t, m, "1", "c")
	wantStory(t, dir, "acquired 1 a", "released 1 a", "acquired 1 b", "released 1 b", "acquired 1 c")
}

// TestTakenWithoutWord: another program claims what somebody has, without ending that
// claim. The last one counts, as in the published replay; and when it ends, the file
// of the first is a leftover.
func TestTakenWithoutWord(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "1", "a")
	left := read(t, lockFile(dir, "1"))
	appendRaw(t, dir, `{"type":"lock_acquired","timestamp":"2024-01-15T10:31:00Z","node_id":"1","owner":"b","expires_at":"2024-01-15T10:40:00Z"}`)
	wantErr(t, errOf(m.Refresh(t.Context(), "1", "a")), claims.ErrNotOwned, "refresh")
	appendRaw(t, dir, `{"type":"lock_released","timestamp":"2024-01-15T10:32:00Z","node_id":"1","owner":"b"}`)
	write(t, lockFile(dir, "1"), left)
	if got, ok, err := m.IsClaimed("1"); ok || err != nil {
		t.Errorf("the claim of %q is back: %v", got.Owner, err)
	}
	if _, err := manager(dir, c).Reap(t.Context()); err != nil || exists(lockFile(dir, "1")) {
		t.Errorf("the file is still there: %v", err)
	}
}

// TestEndedInWholeSeconds: an event of another program, whose times are in whole
// seconds, ends a claim seemingly before it began. Its file is a leftover still.
func TestEndedInWholeSeconds(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "1", "a")
	appendRaw(t, dir, `{"type":"lock_released","timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":"a"}`)
	if got, ok, err := manager(dir, c).IsClaimed("1"); ok || err != nil {
		t.Errorf("claimed: %v, %v", got, err)
	}
	if _, err := m.Reap(t.Context()); err != nil || exists(lockFile(dir, "1")) {
		t.Errorf("the file is still there: %v", err)
	}
}

// TestTemporaryFile: what a dead writer left is cleared away even if its node is not
// claimed any more.
func TestTemporaryFile(t *testing.T) {
	dir, _, m := proof(t)
	temp := filepath.Join(dir, "locks", ".1.lock.holdfast-tmp")
	write(t, temp, "{")
	if _, err := m.Reap(t.Context()); err != nil || exists(temp) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestRefreshedByOthers: a program that dates the file of a refresh by the refresh dies
// between the event of its release and the file. That is a leftover, and no new claim.
func TestRefreshedByOthers(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "1", "a")
	at := start.Add(time.Minute)
	until := at.Add(claims.DefaultLifetime)
	appendRaw(t, dir, fmt.Sprintf(`{"type":"lock_acquired","timestamp":%q,"node_id":"1","owner":"a","expires_at":%q}`, at.Format(time.RFC3339Nano), until.Format(time.RFC3339Nano)))
	appendRaw(t, dir, fmt.Sprintf(`{"type":"lock_released","timestamp":%q,"node_id":"1","owner":"a"}`, start.Format(time.RFC3339Nano))) // by a clock that goes behind
	foreign(t, dir, "1", "a", at, until)
	if got, ok, err := manager(dir, c).IsClaimed("1"); ok || err != nil {
		t.Errorf("claimed: %v, %v", got, err)
	}
	claim(t, m, "1", "b")
}
