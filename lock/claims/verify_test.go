package claims_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

func verified(t *testing.T, m *claims.Manager) (paths []string) {
	t.Helper()
	for p, err := range m.Verify(nil) {
		check(t, err)
		that(t, p.What != "" && p.Next != "", "%+v", p)
		paths = append(paths, p.Path)
	}
	return paths
}

// TestVerify: an event of claims that can't be understood is told, as is one that is damaged.
func TestVerify(t *testing.T) {
	dir, _, m := proof(t)
	claim(t, m, "3", "z")
	if got := verified(t, m); len(got) > 0 {
		t.Errorf("whole: %q", got)
	}
	var want []string
	for _, event := range corrupt {
		appendRaw(t, dir, event)
		want = append(want, eventFile(dir, len(events(t, dir))))
	}
	appendRaw(t, dir, `{"type":"other"}`)
	shown := 0
	for _, err := range m.Verify(func(ledger.Event) { shown++ }) {
		check(t, err)
	}
	if got := verified(t, m); !slices.Equal(got, want) || shown != len(want) { // two are no JSON, and two are good
		t.Errorf("got %q, want %q; %d shown", got, want, shown)
	}
	for _, err := range (&claims.Manager{}).Verify(nil) {
		that(t, err != nil, "no folder is named, and no error")
	}
}

// TestVerify_Snapshot: an event that was changed under a snapshot shows, though claims go by
// the snapshot. Whoever does as is told has it right again.
func TestVerify_Snapshot(t *testing.T) {
	dir, c := snapshotted(t)
	fill(t, dir, last+5)
	m := manager(dir, c)
	if got := verified(t, m); len(got) > 0 {
		t.Errorf("whole: %q", got)
	}
	before := read(t, eventFile(dir, 50))
	write(t, eventFile(dir, 50), `{"n":"changed"}`)
	if got := verified(t, m); !slices.Equal(got, []string{snapshotFile(dir)}) {
		t.Errorf("changed: %q", got)
	}
	check(t, os.Remove(eventFile(dir, 50)))
	if got := verified(t, m); !slices.Equal(got, []string{eventFile(dir, 50)}) {
		t.Errorf("gone: %q", got)
	}
	write(t, eventFile(dir, 50), before)
	if got := verified(t, m); len(got) > 0 {
		t.Errorf("put back: %q", got)
	}

	// Node 1 was never claimed, says who changes the events.
	for _, n := range []int{1, 2} {
		write(t, eventFile(dir, n), `null`)
	}
	wantErr(t, errOf(manager(dir, c).Claim(t.Context(), "1", "b")), claims.ErrClaimed, "by the snapshot")
	for p, err := range m.Verify(nil) {
		that(t, err == nil && p.Path == snapshotFile(dir) && strings.Contains(p.Next, "remove"), "%+v, %v", p, err)
		check(t, os.Remove(p.Path))
	}
	check(t, os.Remove(lockFile(dir, "1"))) // without events it counts as another program's
	claim(t, manager(dir, c), "1", "b")
}
