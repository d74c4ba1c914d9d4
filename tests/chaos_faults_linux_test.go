package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// A fault is planted in one process, to see that it is noticed.
type fault struct {
	act   func(a *actor) // from time to time, beside what it does
	fence func(int64) int64
}

var faults = map[string]fault{
	"ignores the lock": {act: func(a *actor) {
		a.withAnother(a.rand.IntN(chaosLocks))
	}},
	"writes among readers": {act: func(a *actor) {
		n := a.rand.IntN(chaosLocks)
		if held, err := a.lockers[0].(lock.SharedLocker).AcquireShared(context.Background(), chaosKey(n)); err == nil {
			a.withAnother(n)
			_ = held.Release()
		}
	}},
	"unlinks early": {act: func(a *actor) {
		f := a.plain().file(chaosKey(1))
		if held, err := f.TryAcquire(context.Background()); err == nil {
			_, _ = os.Remove(f.Path), os.Remove(f.Path+".flock")
			a.withAnother(1)
			_ = held.Release()
		}
	}},
	"loses a count": {act: func(a *actor) {
		if held, err := a.lockers[0].TryAcquire(context.Background(), chaosKey(0)); err == nil {
			a.board.things[0].done.Add(1)
			_ = held.Release()
		}
	}},
	"counts what it did not do": {act: func(a *actor) {
		if held, err := a.lockers[0].TryAcquire(context.Background(), chaosKey(0)); err == nil {
			a.board.things[0].counter.Add(1)
			_ = held.Release()
		}
	}},
	"comes late": {fence: func(fence int64) int64 { return fence - time.Hour.Microseconds() }},
	"overwrites": {act: func(a *actor) { // without the lock
		text, err := os.ReadFile(updatedAt(a.Address))
		if lines := bytes.Fields(text); err == nil && len(lines) > 1 {
			other := filepath.Join(a.Address, "others", "overwritten")
			_ = os.WriteFile(other, append(bytes.Join(lines[1:], []byte("\n")), '\n'), 0o600)
			_ = os.Rename(other, updatedAt(a.Address))
		}
	}},
	"tells of an event that is not there": {act: func(a *actor) { a.board.report(reportEvent, a.id()+7, 1) }},
	"tears a batch": {act: func(a *actor) {
		torn, _ := json.Marshal(chaosEvent{ID: a.id() << 3, First: a.id() << 3, Count: 2})
		_, _ = ledger.Ledger{Dir: a.Address}.Append(context.Background(), torn)
	}},
	"claims what another has": {act: func(a *actor) {
		for _, owner := range []string{"one", "another"} {
			claim := []byte(`{"type":"lock_acquired","timestamp":"2026-01-02T03:04:05Z","node_id":"3","owner":"` + owner + `","expires_at":"2096-01-02T03:04:05Z"}`)
			_, _ = ledger.Ledger{Dir: proofAt(a.Address)}.Append(context.Background(), claim)
		}
	}},
	"tells of a claim that is not there": {act: func(a *actor) {
		for range 100 {
			a.board.report(reportClaim, a.rand.Uint64(), 0)
		}
	}},
	"leaves a lock": {act: func(a *actor) { // that nobody can judge
		f, err := os.OpenFile(a.plain().file(chaosKey(2)).Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = f.WriteString("?")
			f.Close()
		}
	}},
	"leaves a file": {act: func(a *actor) {
		_ = os.WriteFile(filepath.Join(a.Address, "plain", "litter"), nil, 0o600)
	}},
	"hangs":  {act: func(*actor) { time.Sleep(time.Hour) }}, // not select: without cgo the runtime would find out
	"exits":  {act: func(*actor) { os.Exit(1) }},
	"panics": {act: func(*actor) { panic("planted") }},
}

// withAnother has a thing until another has had it, too.
func (a *actor) withAnother(thing int) {
	until := time.Now().Add(2 * time.Second)
	a.enter(thing, false)
	had := a.board.things[thing].had.Load()
	wait := func() {
		for a.board.things[thing].had.Load() == had && time.Now().Before(until) {
			time.Sleep(time.Millisecond)
		}
	}
	a.count(thing, wait)
	wait()
	a.leave(thing)
}

// TestChaosNotices: each oracle, alone, notices what it is there for.
func TestChaosNotices(t *testing.T) {
	acquire, share := []string{"acquire", "try", "do"}, []string{"share", "try to share"}
	update, ledger, claim := []string{"update"}, []string{"append"}, []string{"claim"}
	for _, planted := range []struct {
		fault, oracle string
		acts          []string
		says          string
	}{
		{"ignores the lock", oracleSlots, acquire, "NOT ALONE, by the slots"},
		{"ignores the lock", oracleBytes, acquire, "NOT ALONE, by the byte lock"},
		{"ignores the lock", oracleCounters, acquire, "THE COUNTER"},
		{"writes among readers", oracleSlots, share, "NOT ALONE, by the slots"},
		{"writes among readers", oracleBytes, share, "NOT ALONE, by the byte lock"},
		{"unlinks early", oracleSlots, acquire, "NOT ALONE, by the slots"},
		{"unlinks early", oracleBytes, acquire, "NOT ALONE, by the byte lock"},
		{"loses a count", oracleCounters, acquire, "THE COUNTER"},
		{"counts what it did not do", oracleCounters, acquire, "THE COUNTER"},
		{"comes late", oracleFences, acquire, "THE FENCE"},
		{"overwrites", oracleReports, update, "AN UPDATE is lost"},
		{"tells of an event that is not there", oracleReports, ledger, "AN EVENT is lost"},
		{"tears a batch", oracleReports, ledger, "A BATCH is not together"},
		{"claims what another has", oracleReports, claim, "A CLAIM beside another"},
		{"tells of a claim that is not there", oracleReports, claim, "A CLAIM is lost"},
		{"leaves a lock", oracleAtOnce, acquire, "NOT AT ONCE"},
		{"leaves a lock", oracleProgress, acquire, "STUCK"},
		{"hangs", oracleProgress, acquire, "STUCK"},
		{"leaves a file", oracleFolder, acquire, "LEFT BEHIND: plain/litter"},
		{"exits", oracleProgress, acquire, "ended by itself"},
		{"panics", oracleProgress, acquire, "planted"},
	} {
		if !testkit.Sample(3) {
			continue
		}
		t.Run(planted.fault+", "+planted.oracle, func(t *testing.T) {
			for turns := uint64(20); turns < 1000; turns *= 2 { // more, as it is left to chance
				c := chaos{fault: planted.fault, oracle: planted.oracle, acts: planted.acts, crowd: 3, turns: turns}
				_, seen := c.raise(t, "files", t.TempDir(), *chaosSeedFlag, 2)
				if strings.Contains(strings.Join(seen, "\n"), planted.says) {
					return
				} else if len(seen) > 0 {
					t.Fatalf("noticed was %q; want %q", seen, planted.says)
				}
			}
			t.Errorf("not noticed: want %q", planted.says)
		})
	}
}
