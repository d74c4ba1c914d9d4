package claims_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// FuzzEvents: whatever two events another program appends behind a claim, the claims are
// what the published replay makes of the events; or an event is named as one that can't be
// understood, and then nothing is claimed.
func FuzzEvents(f *testing.F) {
	at := `"timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":"b"`
	for _, event := range []string{
		`{"type":"lock_acquired",` + at + `,"expires_at":"2024-01-15T11:35:00Z"}`, `{"type":"lock_released",` + at + `}`, `{"type":"lock_reaped",` + at + `}`,
		`{"type":"lock_acquired",` + at + `,"expires_at":"2024-01-15T09:35:00Z"}`, `{"type":"lock_acquired",` + at + `}`, `{"type":"node_created"}`, "null", "[]", "7",
		`{"type":"lock_released","timestamp":"2024-01-15T10:30:00Z","node_id":"../x","owner":"b"}`, `{"TYPE":"lock_released",` + at + `}`, `{"type":7}`,
		`{"type":"lock_released","timestamp":1,"node_id":"1","owner":"b"}`, `{"type":"lock_reaped","timestamp":"2024-01-15T10:30:00Z","node_id":"2","owner":""}`,
	} {
		f.Add([]byte(event), []byte("{}"))
		f.Add([]byte(`{"type":"lock_acquired",`+at+`,"expires_at":"2024-01-15T11:35:00+01:00"}`), []byte(event))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		dir, c, m := proof(t)
		claim(t, m, "1", "a")
		for i, event := range [][]byte{one, two} {
			if !json.Valid(event) || len(event) > 2000 {
				return
			}
			check(t, os.WriteFile(eventFile(dir, i+2), event, 0o600))
		}
		all := lying(t, dir)
		active, err := m.Active()
		fresh, ferr := manager(dir, c).Active()
		if (err == nil) != (ferr == nil) || !slices.EqualFunc(active, fresh, same) {
			t.Errorf("who goes on sees %v, %v, and who comes sees %v, %v", active, err, fresh, ferr)
		}
		if after := lying(t, dir); !maps.Equal(all, after) {
			t.Errorf("looking changed\n%v to\n%v", all, after)
		}
		if err != nil {
			that(t, errors.Is(err, ledger.ErrDamaged) && strings.Contains(err.Error(), "event-00000"), "the error is %v", err)
			if _, err := m.Claim(t.Context(), "7", "c"); !errors.Is(err, ledger.ErrDamaged) || len(events(t, dir)) != 3 {
				t.Errorf("claimed: %v", err)
			}
			return
		}
		want := replay(t, dir)
		maps.DeleteFunc(want, func(_ string, c claims.Claim) bool { return !c.ExpiresAt.After(start) })
		got := map[string]claims.Claim{}
		for _, c := range active {
			got[c.NodeID] = c
		}
		that(t, maps.EqualFunc(got, want, same), "active:\n%v, want\n%v\nof %s, %s", got, want, one, two)
		// Whoever claims next has what nobody has, and nothing else.
		_, had := want["1"]
		if _, err := m.Claim(t.Context(), "1", "c"); had != errors.Is(err, claims.ErrClaimed) || !had && err != nil {
			t.Errorf("claimed by another: %t; claiming: %v", had, err)
		}
		if after := lying(t, dir); after["ledger/event-000002.json"] != string(one) || after["ledger/event-000003.json"] != string(two) {
			t.Errorf("the events are %v", after)
		}
	})
}

// FuzzFiles: a node's file, and the snapshot, change what is claimed only where they may: a
// file adds a claim that it tells of, to those of the ledger, and is not changed by who
// looks; a snapshot adds nothing.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(`{"node_id":"7","owner":"x","acquired_at":"2024-01-15T10:00:00Z","expires_at":"2024-01-15T11:00:00Z"}`), []byte("{}"), []byte(`{"lock_timeout":"90s"}`))
	f.Add([]byte(`{"node_id":"7","owner":"x","acquired_at":"2024-01-15T10:00:00Z","expires_at":"2024-01-15T10:30:00Z"}`), []byte("null"), []byte(`{"lock_timeout":9}`))
	f.Add([]byte(`{"node_id":"8","owner":"x"}`), []byte(`{"format":1,"sequence":1,"state":{"claims":[]}}`), []byte(`{`))
	f.Add([]byte(""), []byte("\x00"), []byte("[]"))
	for _, name := range []string{"testdata/snapshot", "testdata/snapshot-later"} {
		text := must(os.ReadFile(name))(f)
		f.Add([]byte("{"), text, []byte(`{"lock_timeout":"1h"}`))
	}
	f.Fuzz(func(t *testing.T, file, snapshot, meta []byte) {
		dir, c, m := proof(t)
		mine := claim(t, m, "1", "a")
		plain := must(manager(dir, c).Active())(t)
		write(t, snapshotFile(dir), string(snapshot))
		if active, err := manager(dir, c).Active(); err != nil || !slices.EqualFunc(active, plain, same) {
			t.Errorf("with the snapshot %v, %v; without %v", active, err, plain)
		}
		write(t, lockFile(dir, "7"), string(file))
		write(t, filepath.Join(dir, "meta.json"), string(meta))
		before := lying(t, dir)
		fresh := manager(dir, c)
		active, err := fresh.Active()
		var told entry
		lasts := json.Unmarshal(file, &told) == nil && told.NodeID == "7" && told.Owner != "" && !told.AcquiredAt.IsZero() &&
			!told.ExpiresAt.Before(told.AcquiredAt) && told.ExpiresAt.After(start)
		if err != nil || len(active) != 1 && !lasts || len(active) != 2 && lasts || !same(active[0], mine) {
			t.Errorf("active: %v, %v; a claim that lasts: %t", active, err, lasts)
		}
		if after := lying(t, dir); !maps.Equal(before, after) {
			t.Errorf("looking changed\n%v to\n%v", before, after)
		}
		if _, err := fresh.Claim(t.Context(), "7", "b"); lasts && err == nil {
			t.Error("claimed what a file says is claimed")
		} else if err != nil && lying(t, dir)["locks/7.lock"] != string(file) {
			t.Errorf("refused (%v), and the file is %q", err, lying(t, dir)["locks/7.lock"])
		} else if err == nil && len(events(t, dir)) < 2 {
			t.Error("claimed without an event")
		}
		if got := lying(t, dir); got["meta.json"] != string(meta) || got["ledger/event-000001.json"] != before["ledger/event-000001.json"] {
			t.Errorf("changed: %v", got)
		}
	})
}

// lying is what lies in a proof's folder, but for what every writer may change.
func lying(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.json", "locks/*", "ledger/event-*"} {
		paths := must(filepath.Glob(filepath.Join(dir, pattern)))(t)
		for _, path := range paths {
			name := must(filepath.Rel(dir, path))(t)
			all[filepath.ToSlash(name)] = read(t, path)
		}
	}
	return all
}

// FuzzNode: a node's id and an owner are refused, with nothing written; or they make one event
// and one file, which say them.
func FuzzNode(f *testing.F) {
	for _, node := range []string{"1", "1.2.3", "", ".", "1.", ".1", "1..2", "../1", "1/2", "01", "1.10", "x", "１", strings.Repeat("1", 128), strings.Repeat("1", 129), "1\n"} {
		f.Add(node, "a")
		f.Add("1", node)
	}
	f.Add("1", "\xff")
	f.Add("1", "\x1b[31m")
	f.Fuzz(func(t *testing.T, node, owner string) {
		dir, _, m := proof(t)
		got, err := m.Claim(t.Context(), node, owner)
		all := lying(t, dir)
		if err != nil {
			that(t, len(all) == 0, "%q by %q is refused (%v), and there is %v", node, owner, err, all)
			return
		}
		if got.NodeID != node || got.Owner != owner || len(all) != 2 || all["locks/"+node+".lock"] == "" || !slices.Equal(story(t, dir), []string{"acquired " + node + " " + owner}) {
			t.Errorf("%q by %q made %+v, %v", node, owner, got, all)
		}
		check(t, m.Release(t.Context(), node, owner))
		if all := lying(t, dir); len(all) != 2 || all["locks/"+node+".lock"] != "" {
			t.Errorf("released, and there is %v", all)
		}
	})
}
