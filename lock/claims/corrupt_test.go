package claims_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// corrupt are events of claims that don't say what they must.
var corrupt = map[string]string{
	"no owner":         `{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"1","expires_at":"2024-01-15T10:35:00Z"}`,
	"null owner":       `{"type":"lock_released","timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":null}`,
	"no node":          `{"type":"lock_reaped","timestamp":"2024-01-15T10:30:00Z","owner":"a"}`,
	"bad node":         `{"type":"lock_released","timestamp":"2024-01-15T10:30:00Z","node_id":"../1","owner":"a"}`,
	"no timestamp":     `{"type":"lock_released","node_id":"1","owner":"a"}`,
	"bad timestamp":    `{"type":"lock_reaped","timestamp":"yesterday","node_id":"1","owner":"a"}`,
	"number":           `{"type":"lock_reaped","timestamp":1705314600,"node_id":"1","owner":"a"}`,
	"no expires_at":    `{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":"a"}`,
	"empty expires_at": `{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":"a","expires_at":""}`,
	"object owner":     `{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":{},"expires_at":"2024-01-15T10:35:00Z"}`,
	"node is a number": `{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":1,"owner":"a","expires_at":"2024-01-15T10:35:00Z"}`,
	"not JSON":         `{"type":"lock_acquired",`,
	"empty":            ``,
}

// refuses checks that everything is refused with an error that names all paths.
func refuses(t *testing.T, m *claims.Manager, dir string, paths ...string) {
	t.Helper()
	before := len(events(t, dir))
	_, activeErr := m.Active()
	_, _, isErr := m.IsClaimed("2")
	_, claimErr := m.Claim(t.Context(), "2", "b")
	_, refreshErr := m.Refresh(t.Context(), "3", "z")
	_, reapErr := m.Reap(t.Context())
	for what, err := range map[string]error{
		"Active": activeErr, "IsClaimed": isErr, "Claim": claimErr, "Refresh": refreshErr, "Reap": reapErr,
		"Release": m.Release(t.Context(), "3", "z"),
	} {
		if !errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("%s: %v; want ErrDamaged", what, err)
			continue
		}
		for _, path := range paths {
			that(t, strings.Contains(err.Error(), path), "%s: %v; want it to name %s", what, err, path)
		}
	}
	if got := len(events(t, dir)); got != before {
		t.Errorf("%d events were appended", got-before)
	}
}

func eventFile(dir string, n int) string {
	return filepath.Join(dir, "ledger", fmt.Sprintf("event-%06d.json", n))
}

// TestCorrupt: an event that can't be understood stops everything, with its name,
// for a Manager that begins and for one that was at work already; once it is repaired
// by hand both go on.
func TestCorrupt(t *testing.T) {
	for name, event := range corrupt {
		t.Run(name, func(t *testing.T) {
			dir, c, m := proof(t)
			claim(t, m, "3", "z")
			appendRaw(t, dir, event)
			bad := eventFile(dir, 2)
			refuses(t, m, dir, bad)
			fresh := manager(dir, c)
			refuses(t, fresh, dir, bad)

			write(t, bad, `{"type":"repaired"}`)
			claim(t, m, "1", "a")
			claim(t, fresh, "2", "a")
		})
	}
}

// TestCorruptSeveral: all of them are named at once, and what lies behind them leaves
// no trace in a Manager, should the repair take it away.
func TestCorruptSeveral(t *testing.T) {
	dir, _, m := proof(t)
	claim(t, m, "3", "z")
	appendRaw(t, dir, corrupt["no owner"])
	appendRaw(t, dir, `{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":"x","expires_at":"2024-01-15T10:35:00Z"}`)
	appendRaw(t, dir, corrupt["bad node"])
	refuses(t, m, dir, eventFile(dir, 2), eventFile(dir, 4))
	that(t, !exists(lockFile(dir, "1")), "a file was made of what lies behind the damage")
	for n := 2; n <= 4; n++ {
		check(t, os.Remove(eventFile(dir, n)))
	}
	os.Remove(filepath.Join(dir, "ledger", ".head")) // who repairs by hand may know
	if active, err := m.Active(); err != nil || len(active) != 1 || active[0].NodeID != "3" {
		t.Errorf("after the repair: %v, %v", active, err)
	}
	claim(t, m, "1", "a")
	wantStory(t, dir, "acquired 3 z", "acquired 1 a")
}

// TestCorruptMany: a ledger of nothing but damage makes an error of bearable length.
func TestCorruptMany(t *testing.T) {
	dir, _, m := proof(t)
	for range 200 {
		appendRaw(t, dir, corrupt["no owner"])
	}
	_, err := m.Active()
	equal(t, strings.Count(fmt.Sprint(err), "no owner"), 20, "are named")
}

// TestGap: an event that is missing is named.
func TestGap(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "1", "a")
	claim(t, m, "2", "a")
	claim(t, m, "3", "a")
	check(t, os.Remove(eventFile(dir, 2)))
	if _, err := manager(dir, c).Active(); !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), eventFile(dir, 2)) {
		t.Errorf("Active: %v", err)
	}
}

// TestAliens: a file in the ledger's folder that can be told to be none of its events stops
// nobody; one that may be meant as one does: it may say that somebody has a claim.
func TestAliens(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "3", "z")
	for _, name := range []string{"README.md", "event-000001.json~", "event-000002.json.bak"} {
		write(t, filepath.Join(dir, "ledger", name), corrupt["no owner"])
	}
	fresh := manager(dir, c)
	if active, err := fresh.Active(); err != nil || len(active) != 1 {
		t.Errorf("active: %v, %v", active, err)
	}
	claim(t, manager(dir, c), "1", "a")
	for _, name := range []string{"event-3.json", "000003.json"} {
		path := filepath.Join(dir, "ledger", name)
		write(t, path, `{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"2","owner":"x","expires_at":"2024-01-15T10:35:00Z"}`)
		refuses(t, manager(dir, c), dir, path)
		check(t, os.Remove(path))
	}
}

// TestOtherEvents: events of other types, and JSON values that are none, are ignored,
// whatever their fields hold.
func TestOtherEvents(t *testing.T) {
	dir, c, m := proof(t)
	for _, event := range []string{
		`null`, `1`, `"lock_acquired"`, `[{"type":"lock_acquired"}]`, `{}`, `{"type":null}`, `{"type":7}`,
		`{"type":"node_created","node_id":["1"],"owner":7,"timestamp":"whenever"}`,
		`{"type":"LOCK_ACQUIRED","node_id":"1"}`, `{"type":"lock_acquired_twice","node_id":"1"}`,
		`{"data":{"type":"lock_acquired"}}`,
	} {
		appendRaw(t, dir, event)
	}
	claim(t, m, "1", "a")
	if active, err := manager(dir, c).Active(); err != nil || len(active) != 1 {
		t.Errorf("active: %v, %v", active, err)
	}
}
