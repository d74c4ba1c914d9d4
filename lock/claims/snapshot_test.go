package claims_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

func snapshotFile(dir string) string { return filepath.Join(dir, "ledger", ".claims") }

// fill appends events as another program would, up to number n: node 1 is a's for an hour, and
// the others tell of nothing.
func fill(t *testing.T, dir string, n int) {
	t.Helper()
	for i := len(events(t, dir)) + 1; i <= n; i++ {
		event := fmt.Sprintf(`{"n":%d}`, i)
		switch i {
		case 1, 2, 3:
			event = fmt.Sprintf(`{"type":"lock_acquired","timestamp":"2024-01-15T10:30:0%dZ","node_id":"%d","owner":"a","expires_at":"2024-01-15T11:30:00Z"}`, i, (i+1)/2)
		case 4:
			event = `{"type":"lock_released","timestamp":"2024-01-15T10:30:04Z","node_id":"2","owner":"a"}`
		}
		write(t, eventFile(dir, i), event)
	}
	at := start.Truncate(time.Hour).Add(time.Duration(n) * time.Second)
	check(t, os.Chtimes(eventFile(dir, n), at, at))
}

// last is the number of events that are worth a snapshot, as there is a claim among them.
const last = 101

// snapshotted is a proof with a snapshot at its last event.
func snapshotted(t *testing.T) (dir string, c *clock) {
	t.Helper()
	dir, c, m := proof(t)
	fill(t, dir, last)
	check(t, errOf(m.Reap(t.Context())))
	if !exists(snapshotFile(dir)) {
		t.Fatal("no snapshot was left")
	}
	return dir, c
}

// used reports whether a new Manager uses the snapshot: then it does not look at event 50,
// which says nothing that can be understood. nodes are claimed.
func used(t *testing.T, dir string, c *clock, nodes ...string) bool {
	t.Helper()
	write(t, eventFile(dir, 50), corrupt["no owner"])
	defer write(t, eventFile(dir, 50), `{"n":50}`)
	active, err := manager(dir, c).Active()
	switch {
	case err == nil && !slices.EqualFunc(active, nodes, func(c claims.Claim, node string) bool { return c.NodeID == node }):
		t.Errorf("active: %v, want %q", active, nodes)
	case err != nil && !errors.Is(err, ledger.ErrDamaged):
		t.Error(err)
	}
	return err == nil
}

// TestSnapshot_Golden: what is written is what was written by earlier versions.
func TestSnapshot_Golden(t *testing.T) {
	dir, _ := snapshotted(t)
	if got, want := read(t, snapshotFile(dir)), read(t, "testdata/snapshot"); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// TestSnapshot_GoldenRead: an earlier version's is used, and a later one's, with further
// fields.
func TestSnapshot_GoldenRead(t *testing.T) {
	for _, name := range []string{"snapshot", "snapshot-later"} {
		dir, c := snapshotted(t)
		write(t, snapshotFile(dir), read(t, "testdata/"+name))
		that(t, used(t, dir, c, "1"), "%s is not used", name)
	}
}

// edit changes a field of the snapshot.
func edit(t *testing.T, dir, field string, change func(value json.RawMessage) string) {
	t.Helper()
	var fields map[string]json.RawMessage
	check(t, json.Unmarshal([]byte(read(t, snapshotFile(dir))), &fields))
	changed := change(fields[field])
	if changed == string(fields[field]) {
		t.Fatalf("%s stays %s", field, changed)
	}
	fields[field] = json.RawMessage(changed)
	data := must(json.Marshal(fields))(t)
	write(t, snapshotFile(dir), string(data))
}

// otherDigest changes one digit.
func otherDigest(value json.RawMessage) string {
	digit := byte('0')
	if value[1] == '0' {
		digit = '1'
	}
	return `"` + string(digit) + string(value[2:])
}

// unfit are the ways in which a snapshot can fail to fit, or to be one.
var unfit = map[string]func(t *testing.T, dir string){
	"absent": func(t *testing.T, dir string) { check(t, os.Remove(snapshotFile(dir))) },
	"empty":  func(t *testing.T, dir string) { write(t, snapshotFile(dir), "") },
	"NULs":   func(t *testing.T, dir string) { write(t, snapshotFile(dir), strings.Repeat("\x00", 4096)) },
	"null":   func(t *testing.T, dir string) { write(t, snapshotFile(dir), "null") },
	"half":   func(t *testing.T, dir string) { check(t, os.Truncate(snapshotFile(dir), 500)) },
	"huge":   func(t *testing.T, dir string) { check(t, os.Truncate(snapshotFile(dir), 1<<40)) },
	"two": func(t *testing.T, dir string) {
		write(t, snapshotFile(dir), strings.Repeat(read(t, snapshotFile(dir)), 2))
	},
	"of the future": func(t *testing.T, dir string) { edit(t, dir, "format", func(json.RawMessage) string { return "2" }) },
	"of another event": func(t *testing.T, dir string) {
		edit(t, dir, "sequence", func(json.RawMessage) string { return "100" })
	},
	"ahead": func(t *testing.T, dir string) {
		edit(t, dir, "sequence", func(json.RawMessage) string { return "102" })
	},
	"of no event":        func(t *testing.T, dir string) { edit(t, dir, "sequence", func(json.RawMessage) string { return "0" }) },
	"of a negative one":  func(t *testing.T, dir string) { edit(t, dir, "sequence", func(json.RawMessage) string { return "-1" }) },
	"other digest":       func(t *testing.T, dir string) { edit(t, dir, "digest", otherDigest) },
	"other before":       func(t *testing.T, dir string) { edit(t, dir, "before", otherDigest) },
	"short digest":       func(t *testing.T, dir string) { edit(t, dir, "digest", func(json.RawMessage) string { return `"00"` }) },
	"other state digest": func(t *testing.T, dir string) { edit(t, dir, "state_digest", otherDigest) },
	"other state": func(t *testing.T, dir string) {
		edit(t, dir, "state", func(state json.RawMessage) string { return strings.Replace(string(state), `"a"`, `"b"`, 1) })
	},
	"a path": func(t *testing.T, dir string) { // with the right digest
		var state string
		edit(t, dir, "state", func(value json.RawMessage) string {
			state = strings.Replace(string(value), `"node_id":"1"`, `"node_id":"../1"`, 1)
			return state
		})
		edit(t, dir, "state_digest", func(json.RawMessage) string { return fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(state))) })
	},
	"a folder": func(t *testing.T, dir string) {
		check(t, errors.Join(os.Remove(snapshotFile(dir)), os.Mkdir(snapshotFile(dir), 0o755)))
	},
	"a link": func(t *testing.T, dir string) {
		check(t, errors.Join(os.Rename(snapshotFile(dir), filepath.Join(dir, "snapshot")), os.Symlink("../snapshot", snapshotFile(dir))))
	},

	"last event changed": func(t *testing.T, dir string) {
		info := must(os.Stat(eventFile(dir, last)))(t)
		write(t, eventFile(dir, last), `{"n":102}`)
		check(t, os.Chtimes(eventFile(dir, last), info.ModTime(), info.ModTime()))
	},
	"last event written again": func(t *testing.T, dir string) { write(t, eventFile(dir, last), `{"n":101}`) },
	"last event gone": func(t *testing.T, dir string) {
		check(t, errors.Join(os.Remove(eventFile(dir, last)), os.Remove(filepath.Join(dir, "ledger", ".head"))))
	},
	"last event damaged": func(t *testing.T, dir string) { write(t, eventFile(dir, last), `{"n":`) },
}

// TestSnapshot_Unfit: what does not fit, or is no snapshot, is ignored, and all events are
// replayed. The next change replaces it by one that fits.
func TestSnapshot_Unfit(t *testing.T) {
	for name, change := range unfit {
		t.Run(name, func(t *testing.T) {
			dir, c := snapshotted(t)
			if !used(t, dir, c, "1") {
				t.Fatal("not used even before")
			}
			change(t, dir)
			if used(t, dir, c, "1") {
				t.Fatal("used")
			}
			if name == "last event damaged" {
				write(t, eventFile(dir, last), `{"n":"repaired"}`)
			}
			wantErr(t, errOf(manager(dir, c).Claim(t.Context(), "1", "b")), claims.ErrClaimed, "the claim of a is not known")
			claim(t, manager(dir, c), "2", "b")
			fill(t, dir, last+2)
			check(t, errOf(manager(dir, c).Reap(t.Context())))
			equal(t, used(t, dir, c, "1", "2"), name != "a folder", "the next one is used")
		})
	}
}

// TestSnapshot_OtherLedger: a ledger that was restored, and has grown since with the same
// words, is not taken for the one that was lost.
func TestSnapshot_OtherLedger(t *testing.T) {
	dir, c := snapshotted(t)
	for n := 2; n <= last; n++ {
		check(t, os.Remove(eventFile(dir, n)))
	}
	write(t, eventFile(dir, 2), `{"type":"lock_released","timestamp":"2024-01-15T10:30:02Z","node_id":"1","owner":"a"}`)
	for n := 3; n <= 110; n++ {
		write(t, eventFile(dir, n), fmt.Sprintf(`{"n":%d}`, n))
	}
	claim(t, manager(dir, c), "1", "b")
}

// TestSnapshot_When: a snapshot is left when enough events have come since the last one; the
// more claims there are, the more.
func TestSnapshot_When(t *testing.T) {
	dir, c, m := proof(t)
	at := func(sequence int) bool {
		var snap struct{ Sequence int }
		data, err := os.ReadFile(snapshotFile(dir))
		return err == nil && json.Unmarshal(data, &snap) == nil && snap.Sequence == sequence
	}
	fill(t, dir, 99)
	claim(t, m, "5", "a") // with event 1 it makes two claims
	that(t, !exists(snapshotFile(dir)), "a snapshot of 99 events")
	fill(t, dir, 102)
	if _, err := m.Active(); err != nil || exists(snapshotFile(dir)) {
		t.Errorf("a reader has left a snapshot, or %v", err)
	}
	if _, err := m.Claim(t.Context(), "5", "b"); !errors.Is(err, claims.ErrClaimed) || !at(102) {
		t.Errorf("a claim that was refused has left no snapshot: %v", err)
	}
	for _, owner := range []string{"b", "c"} { // by one who has just left one
		if _, err := m.Claim(t.Context(), "5", owner); !errors.Is(err, claims.ErrClaimed) || !at(102) {
			t.Errorf("another snapshot, without further events, or %v", err)
		}
	}
	fill(t, dir, 103)
	if _, err := m.Claim(t.Context(), "5", "b"); !errors.Is(err, claims.ErrClaimed) || !at(102) {
		t.Errorf("after a further event: another snapshot, or %v", err)
	}
	fill(t, dir, 203)
	if _, err := manager(dir, c).Reap(t.Context()); err != nil || !at(102) {
		t.Errorf("after 101 further events, with two claims: another snapshot, %v", err)
	}
	fill(t, dir, 204)
	if _, err := manager(dir, c).Reap(t.Context()); err != nil || !at(204) {
		t.Errorf("after 102 further events: no snapshot, %v", err)
	}
}

// TestSnapshot_NotWritten: where a snapshot can't be written claims are made all the same.
func TestSnapshot_NotWritten(t *testing.T) {
	for _, name := range []string{".claims", ".event-claims.tmp"} {
		dir, _, m := proof(t)
		fill(t, dir, last)
		check(t, os.MkdirAll(filepath.Join(dir, "ledger", name, "full"), 0o755))
		claim(t, m, "2", "b")
		if got, _ := filepath.Glob(filepath.Join(dir, "ledger", ".event-*")); len(got) > 0 && name == ".claims" {
			t.Errorf("%q is left", got)
		}
		that(t, name == ".claims" || !exists(snapshotFile(dir)), "written all the same")
	}
}

// TestSnapshot_WriterDied: what a writer who died has left does not stand in the way.
func TestSnapshot_WriterDied(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "4", "b") // looks for what dead writers have left, and nobody will so soon again
	fill(t, dir, last+1)
	write(t, filepath.Join(dir, "ledger", ".event-claims.tmp"), `{"format":1,`)
	claim(t, m, "5", "b")
	if data := read(t, snapshotFile(dir)); !bytes.HasPrefix([]byte(data), []byte(`{"format":1,"sequence":102,`)) {
		t.Errorf("the snapshot is %q", data)
	}
	claim(t, manager(dir, c), "6", "b")
}

// TestSnapshot_AsReplayed: whatever the events are, and wherever the snapshot comes, the state
// is what replaying all of them makes.
func TestSnapshot_AsReplayed(t *testing.T) {
	dir, c, m := proof(t)
	random := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 1500; n++ {
		kind := []string{"lock_acquired", "lock_acquired", "lock_released", "lock_reaped", "other"}[random.IntN(5)]
		at := start.Add(time.Duration(n+random.IntN(5)-random.IntN(5)) * time.Second)
		write(t, eventFile(dir, n), fmt.Sprintf(`{"type":%q,"timestamp":%q,"node_id":"1.%d","owner":"<%c>","expires_at":%q}`,
			kind, at.Format(time.RFC3339Nano), random.IntN(60), 'a'+rune(random.IntN(6)), at.Add(time.Minute).Format(time.RFC3339Nano)))
		if random.IntN(60) > 0 {
			continue
		}
		if random.IntN(2) == 0 {
			m = manager(dir, c)
		}
		err := m.Release(t.Context(), "9", "nobody")
		if !errors.Is(err, claims.ErrNotOwned) {
			t.Fatal(err)
		}
		for range random.IntN(70) {
			n++
			write(t, eventFile(dir, n), `{"type":"other"}`)
		}
		got := must(m.State())(t)
		hidden := snapshotFile(dir) + "-hidden"
		if !exists(snapshotFile(dir)) {
			continue
		}
		check(t, os.Rename(snapshotFile(dir), hidden))
		want, err := m.State()
		check(t, errors.Join(err, os.Rename(hidden, snapshotFile(dir))))
		if got != want {
			t.Fatalf("after %d events, from the snapshot:\n%s\nreplayed:\n%s", n, got, want)
		}
	}
}

// over appends count claims that have ended, on nodes that are claimed once, behind event n.
func over(t *testing.T, dir string, n, count int) (last int) {
	t.Helper()
	for range count {
		for _, kind := range []string{"lock_acquired", "lock_released"} {
			n++
			write(t, eventFile(dir, n), fmt.Sprintf(`{"type":%q,"timestamp":"2024-01-15T10:30:00Z","node_id":"1.%d","owner":"a","expires_at":"2024-01-15T10:35:00Z"}`,
				kind, (n-1)/2))
		}
	}
	return n
}

// TestSnapshot_Small: it does not grow with the number of events, nor of nodes that were
// claimed once.
func TestSnapshot_Small(t *testing.T) {
	dir, _, m := proof(t)
	var sizes []int64
	for n := 0; n < 2000; {
		n = over(t, dir, n, 200)
		check(t, errOf(m.Reap(t.Context())))
		info := must(os.Stat(snapshotFile(dir)))(t)
		sizes = append(sizes, info.Size())
	}
	if first, last := sizes[0], sizes[len(sizes)-1]; last > first*5/4 { // numbers get longer
		t.Errorf("it grows: %v bytes", sizes)
	}
}

// TestEnded_Forgotten: the file of a claim that has ended is removed; if it comes when so many
// others have ended since that its end is forgotten, it counts until it expires.
func TestEnded_Forgotten(t *testing.T) {
	for ends, known := range map[int]bool{99: true, 100: false} {
		dir, c, m := proof(t)
		claim(t, m, "7", "a")
		file := read(t, lockFile(dir, "7"))
		check(t, m.Release(t.Context(), "7", "a"))
		over(t, dir, 2, ends)
		write(t, lockFile(dir, "7"), file)
		switch _, err := m.Claim(t.Context(), "7", "b"); {
		case known:
			check(t, err)
		case !errors.Is(err, claims.ErrClaimed):
			t.Errorf("after %d ends: %v", ends, err)
		default:
			c.add(time.Hour)
			claim(t, m, "7", "b")
		}
	}
}
