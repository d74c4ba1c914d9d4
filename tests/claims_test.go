package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// claimOnce does one thing, args[1], with the claim on node 1 in the proof at args[0].
func claimOnce(args []string) (err error) {
	m := &claims.Manager{Dir: args[0]}
	switch args[1] {
	case "claim":
		_, err = m.Claim(context.Background(), "1", "dead")
	case "release":
		err = m.Release(context.Background(), "1", "dead")
	case "reap":
		_, err = m.Reap(context.Background())
	}
	return err
}

// claimChurn claims, refreshes, releases and reaps nodes of the proof at args[0] as
// args[1], at random, until it is killed.
func claimChurn(args []string) error {
	m := &claims.Manager{Dir: args[0], Ledger: ledger.Ledger{NoSync: true, Timeout: -1}}
	ctx, me := context.Background(), args[1]
	for {
		node := fmt.Sprint(1 + rand.IntN(4))
		var err error
		switch rand.IntN(6) {
		case 0, 1:
			_, err = m.Claim(ctx, node, me)
		case 2:
			_, err = m.Refresh(ctx, node, me)
		case 3:
			err = m.Release(ctx, node, me)
		case 4:
			_, err = m.Reap(ctx)
		case 5:
			_, err = m.Active()
		}
		if err != nil && !errors.Is(err, claims.ErrClaimed) && !errors.Is(err, claims.ErrNotOwned) {
			return err
		}
	}
}

// claimEvent is an event in the published form.
type claimEvent struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	NodeID    string    `json:"node_id"`
	Owner     string    `json:"owner"`
	ExpiresAt time.Time `json:"expires_at"`
	since     time.Time // what it refreshes was acquired then
}

// claimEvents reads the ledger with nothing of the code under test, and checks that
// it has no gap, and that nothing else lies in it.
func claimEvents(t *testing.T, dir string) (events []claimEvent) {
	t.Helper()
	names := must(filepath.Glob(filepath.Join(dir, "ledger", "event-*")))(t)
	for i, name := range names { // in their order
		if want := fmt.Sprintf("event-%06d.json", i+1); filepath.Base(name) != want {
			t.Fatalf("%s lies where %s should", name, want)
		}
		var e claimEvent
		data, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &e)
		}
		check(t, err, name)
		events = append(events, e)
	}
	return events
}

// legal replays the events and checks that each was allowed at its time: nobody claims
// what another has, and only what there is ends, when it may.
func legal(t *testing.T, events []claimEvent) map[string]claimEvent {
	t.Helper()
	has := map[string]claimEvent{}
	for i, e := range events {
		c, ok := has[e.NodeID]
		switch {
		case e.Type == "lock_acquired" && ok && c.Owner != e.Owner:
			t.Errorf("event %d: %s claims node %s, which %s has until %v, at %v", i+1, e.Owner, e.NodeID, c.Owner, c.ExpiresAt, e.Timestamp)
		case e.Type == "lock_acquired" && ok && !e.Timestamp.Before(c.ExpiresAt):
			t.Errorf("event %d: %s refreshes node %s, of which the claim has expired", i+1, e.Owner, e.NodeID)
		case e.Type != "lock_acquired" && (!ok || c.Owner != e.Owner):
			t.Errorf("event %d: %s of %s on node %s, which %q has", i+1, e.Type, e.Owner, e.NodeID, c.Owner)
		case e.Type == "lock_reaped" && e.Timestamp.Before(c.ExpiresAt):
			t.Errorf("event %d: node %s is reaped %v before the claim expires", i+1, e.NodeID, c.ExpiresAt.Sub(e.Timestamp))
		}
		if e.Type == "lock_acquired" {
			e.since = e.Timestamp
			if ok {
				e.since = c.since
			}
			has[e.NodeID] = e
		} else {
			delete(has, e.NodeID)
		}
	}
	return has
}

// claimFiles reads locks/, in which nothing but whole claims may lie.
func claimFiles(t *testing.T, dir string) map[string]claims.Claim {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "locks"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	files := map[string]claims.Claim{}
	for _, entry := range entries {
		var c claims.Claim
		data, err := os.ReadFile(filepath.Join(dir, "locks", entry.Name()))
		if err == nil {
			err = json.Unmarshal(data, &c)
		}
		if err != nil || c.NodeID+".lock" != entry.Name() {
			t.Errorf("locks/%s: %v, %v", entry.Name(), c, err)
		}
		files[c.NodeID] = c
	}
	return files
}

// agree checks that the files are what the events make of the claims.
func agree(t *testing.T, dir string) {
	t.Helper()
	has, files := legal(t, claimEvents(t, dir)), claimFiles(t, dir)
	for node, e := range has {
		if c := files[node]; c.Owner != e.Owner || !c.AcquiredAt.Equal(e.since) || !c.ExpiresAt.Equal(e.ExpiresAt) {
			t.Errorf("node %s: the ledger says %v, the file %v", node, e, c)
		}
	}
	if len(has) != len(files) {
		t.Errorf("%d claims, %d files", len(has), len(files))
	}
}

// TestClaimsChaos: six processes do what they like with four nodes, and one of them is
// killed every few milliseconds. What the ledger tells is a history without a
// collision, and after one more reaping the files say the same.
func TestClaimsChaos(t *testing.T) {
	const procs, kills = 6, 100
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "meta.json"), []byte(`{"lock_timeout":"1s"}`), 0o600))
	launch := func(n int) *exec.Cmd {
		return background(t, play(t, "claims", dir, fmt.Sprint("agent-", n)))
	}
	kill := func(cmd *exec.Cmd) {
		cmd.Process.Kill()
		if err := cmd.Wait(); !strings.Contains(fmt.Sprint(err), "killed") {
			t.Errorf("a process ended by itself: %v", err)
		}
	}
	var running []*exec.Cmd
	for n := range procs {
		running = append(running, launch(n))
	}
	for n := range kills {
		eventually(t, "as many events as kills", func() bool {
			events, _ := filepath.Glob(filepath.Join(dir, "ledger", "event-*.json"))
			return len(events) > n
		})
		time.Sleep(rand.N(150 * time.Millisecond)) // any instruction
		i := rand.IntN(procs)
		kill(running[i])
		running[i] = launch(procs + n)
	}
	for _, cmd := range running {
		kill(cmd)
	}
	if len(claimEvents(t, dir)) < kills {
		t.Errorf("only %d events came about", len(claimEvents(t, dir)))
	}

	m := &claims.Manager{Dir: dir, Ledger: ledger.Ledger{NoSync: true, Timeout: time.Minute}}
	check(t, errOf(m.Reap(t.Context())))
	agree(t, dir)
	if temps, _ := filepath.Glob(filepath.Join(dir, "ledger", ".event-*")); len(temps) > 0 {
		t.Errorf("left behind: %v", temps)
	}
	types := map[string]int{}
	for _, e := range claimEvents(t, dir) {
		types[e.Type]++
	}
	if types["lock_acquired"] == 0 || types["lock_released"] == 0 || types["lock_reaped"] == 0 {
		t.Errorf("not everything came about: %v", types)
	}
	t.Logf("%v, %d kills", types, kills+procs)
}
