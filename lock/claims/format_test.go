package claims_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
)

// TestFormat: the events and the file have the published form, byte for byte.
func TestFormat(t *testing.T) { // guards: O1
	dir, c, m := proof(t)
	claim(t, m, "1.2.3", "agent-7")
	if got, want := read(t, lockFile(dir, "1.2.3")), read(t, "testdata/claim.lock"); got != want {
		t.Errorf("the file is\n%swant\n%s", got, want)
	}
	c.add(time.Minute)
	check(t, m.Release(t.Context(), "1.2.3", "agent-7"))
	that(t, !exists(lockFile(dir, "1.2.3")), "the file is still there after the release")
	claim(t, m, "1.2.3", "agent-7")
	c.add(claims.DefaultLifetime)
	check(t, errOf(m.Reap(t.Context())))
	for n, name := range map[int]string{1: "lock_acquired.json", 2: "lock_released.json", 4: "lock_reaped.json"} {
		got := read(t, filepath.Join(dir, "ledger", fmt.Sprintf("event-%06d.json", n)))
		if want := read(t, filepath.Join("testdata", name)); got+"\n" != want {
			t.Errorf("event %d is\n%s\nwant\n%s", n, got, want)
		}
	}
}

// TestOtherProgramsEvents: events as the published program writes them, with times in
// whole seconds, in other time zones, with further fields and in another order, make
// claims; and the files follow.
func TestOtherProgramsEvents(t *testing.T) { // guards: O2
	dir, c, m := proof(t)
	c.at = time.Date(2024, 1, 15, 10, 31, 0, 0, time.UTC)
	for _, event := range []string{
		`{"type":"proof_initialized","timestamp":"2024-01-15T10:29:00Z","conjecture":"x"}`,
		`{"type": "lock_acquired", "timestamp": "2024-01-15T10:30:00Z", "node_id": "1.2.3", "owner": "agent-uuid-1234", "expires_at": "2024-01-15T10:35:00Z"}`,
		`{"owner":"b","sequence":7,"expires_at":"2024-01-15T12:35:00.5+02:00","node_id":"1.10","type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","more":{"a":[1]}}`,
		`{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"2","owner":"c","expires_at":"2024-01-15T10:30:30Z"}`,
		`{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"3","owner":"d","expires_at":"2024-01-15T10:35:00Z"}`,
		`{"type":"lock_released","timestamp":"2024-01-15T10:30:00Z","node_id":"3","owner":"d"}`,
	} {
		appendRaw(t, dir, event)
	}
	active := must(m.Active())(t)
	at := func(s string) time.Time { d, _ := time.Parse(time.RFC3339Nano, s); return d }
	want := []claims.Claim{
		{NodeID: "1.2.3", Owner: "agent-uuid-1234", AcquiredAt: at("2024-01-15T10:30:00Z"), ExpiresAt: at("2024-01-15T10:35:00Z")},
		{NodeID: "1.10", Owner: "b", AcquiredAt: at("2024-01-15T10:30:00Z"), ExpiresAt: at("2024-01-15T10:35:00.5Z")},
	}
	that(t, len(active) == 2 && same(active[0], want[0]) && same(active[1], want[1]), "active: %v, want %v", active, want)
	check(t, errOf(m.Reap(t.Context())))
	if got := inFiles(t, dir); !maps.EqualFunc(got, map[string]claims.Claim{"1.2.3": want[0], "1.10": want[1]}, same) {
		t.Errorf("files: %v", got)
	}
	// They are its claims still: it refreshes and releases them through us, too.
	noErr(t, errOf(m.Refresh(t.Context(), "1.2.3", "agent-uuid-1234")))
	noErr(t, m.Release(t.Context(), "1.10", "b"))
}

// TestOtherProgramsFile: a file with further fields is a claim.
func TestOtherProgramsFile(t *testing.T) {
	dir, _, m := proof(t)
	write(t, lockFile(dir, "4"), `{"host":"h","node_id":"4","owner":"them","acquired_at":"2024-01-15T10:30:00Z",
		"expires_at":"2024-01-15T10:35:00Z","more":[]}`)
	if c, ok, err := m.IsClaimed("4"); err != nil || !ok || c.Owner != "them" {
		t.Errorf("IsClaimed: %v, %v, %v", c, ok, err)
	}
}

// same compares claims; times in different zones may be the same.
func same(a, b claims.Claim) bool {
	return a.NodeID == b.NodeID && a.Owner == b.Owner && a.AcquiredAt.Equal(b.AcquiredAt) && a.ExpiresAt.Equal(b.ExpiresAt)
}

// TestFormat_UTC: whatever the zone of the clock, times are written in UTC, as other programs
// write them.
func TestFormat_UTC(t *testing.T) {
	dir := t.TempDir()
	c := newClock()
	m := manager(dir, c)
	m.Now = func() time.Time { return c.now().In(time.FixedZone("", 2*60*60)) }
	claim(t, m, "1", "a")
	for _, text := range []string{read(t, filepath.Join(dir, "ledger", "event-000001.json")), read(t, lockFile(dir, "1"))} {
		that(t, strings.Contains(text, `"2024-01-15T10:30:00.123456789Z"`) && !strings.Contains(text, "+02:00"), "%s", text)
	}
}
