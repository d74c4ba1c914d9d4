package claims_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// TestOldViews: two Managers have both seen a node free; one of them gets it, and the
// other is told who has it. Likewise for what both have seen expired.
func TestOldViews(t *testing.T) {
	dir, c, a := proof(t)
	b := manager(dir, c)
	for _, m := range []*claims.Manager{a, b} {
		if _, ok, err := m.IsClaimed("1"); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	first := claim(t, a, "1", "a")
	_, err := b.Claim(t.Context(), "1", "b")
	var claimed *claims.ClaimedError
	that(t, errors.As(err, &claimed) && same(claimed.Claim, first), "the second claim: %v", err)
	c.add(claims.DefaultLifetime)
	for _, m := range []*claims.Manager{a, b} {
		if _, ok, err := m.IsClaimed("1"); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	claim(t, b, "1", "b")
	wantErr(t, errOf(a.Refresh(t.Context(), "1", "a")), claims.ErrNotOwned, "refresh after another has claimed")
	if ended, err := a.Reap(t.Context()); err != nil || len(ended) != 0 {
		t.Errorf("reaped %v, %v", ended, err)
	}
	wantStory(t, dir, "acquired 1 a", "reaped 1 a", "acquired 1 b")
}

// TestAppendedWithoutLock: somebody who does not ask for the lock appends while a
// Manager decides. Nothing is claimed on that old view; the next call sees it all.
func TestAppendedWithoutLock(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "2", "a")
	m.Now = func() time.Time { // is asked once the ledger was read
		m.Now = c.now
		appendRaw(t, dir, `{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":"b","expires_at":"2024-01-15T10:35:00Z"}`)
		return c.now()
	}
	wantErr(t, errOf(m.Claim(t.Context(), "1", "a")), ledger.ErrSequenceMismatch, "claim on an old view")
	if got := inFiles(t, dir); len(got) != 1 {
		t.Errorf("files: %v", got)
	}
	wantErr(t, errOf(m.Claim(t.Context(), "1", "a")), claims.ErrClaimed, "the next claim")
	wantStory(t, dir, "acquired 2 a", "acquired 1 b")
}

// together runs what all are told at one moment.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			do(i)
		})
	}
	close(begin)
	all.Wait()
}

// TestClaimants: of ten goroutines, each with its own Manager, that want one node,
// one gets it; also when all share a Manager.
func TestClaimants(t *testing.T) {
	for _, shared := range []bool{false, true} {
		dir, c, m := proof(t)
		var mu sync.Mutex
		won := map[string][]string{}
		together(10, func(i int) {
			mine, me := manager(dir, c), fmt.Sprint("agent-", i)
			if shared {
				mine = m
			}
			for n := range 5 {
				node := fmt.Sprint(1 + (i+n)%5)
				_, err := mine.Claim(t.Context(), node, me)
				if err == nil {
					mu.Lock()
					won[node] = append(won[node], me)
					mu.Unlock()
				} else if !errors.Is(err, claims.ErrClaimed) {
					t.Error(err)
				}
			}
		})
		files := inFiles(t, dir)
		for node, has := range replay(t, dir) {
			if !slices.Equal(won[node], []string{has.Owner}) || !same(files[node], has) {
				t.Errorf("node %s: %v think that they have it, the ledger says %q, the file %q", node, won[node], has.Owner, files[node].Owner)
			}
		}
		if len(won) != 5 || len(files) != 5 || len(events(t, dir)) != 5 {
			t.Errorf("5 nodes: %d were claimed, with %d files and %d events", len(won), len(files), len(events(t, dir)))
		}
	}
}

// TestClaimantProcesses: the same with ten processes, all of which have looked before
// any of them claims.
func TestClaimantProcesses(t *testing.T) {
	dir, _, _ := proof(t)
	agents := agents(t, dir, 10)
	for i, a := range agents {
		a.Order(fmt.Sprintf("claim 1 agent-%d", i))
	}
	var winners []string
	for i, a := range agents {
		switch answer := a.Answer(); answer {
		case "ok 0":
			winners = append(winners, fmt.Sprintf("acquired 1 agent-%d", i))
		case "claimed":
		default:
			t.Error(answer)
		}
	}
	equal(t, len(winners), 1, "have it")
	wantStory(t, dir, winners...)
}

// agents are processes that have replayed the ledger.
func agents(t *testing.T, dir string, n int) (all []*testkit.Child) {
	for range n {
		all = append(all, play(t, "agent", dir))
	}
	for _, a := range all {
		if answer := a.Say("look"); answer != "ok 0" {
			t.Fatal(answer)
		}
	}
	return all
}

// TestReapers: of two who reap at once, goroutines or processes, one ends each
// claim, of which the ledger tells once.
func TestReapers(t *testing.T) {
	const nodes = 20
	stage := func(t *testing.T) (string, *clock) {
		dir, c, m := proof(t)
		for n := range nodes {
			if n%4 == 3 {
				foreign(t, dir, fmt.Sprint(n), "them", start, start.Add(time.Second))
			} else {
				claim(t, m, fmt.Sprint(n), "us")
			}
		}
		return dir, c
	}
	check := func(t *testing.T, dir string, ended int) {
		t.Helper()
		times := map[string]int{}
		for _, line := range story(t, dir) {
			if strings.HasPrefix(line, "reaped") {
				times[line]++
			}
		}
		for line, n := range times {
			that(t, n == 1, "%s: %d times", line, n)
		}
		if len(times) != nodes || ended != nodes || len(inFiles(t, dir)) != 0 {
			t.Errorf("%d were reaped, by their word %d; want %d; files: %v", len(times), ended, nodes, inFiles(t, dir))
		}
	}
	t.Run("goroutines", func(t *testing.T) {
		dir, c := stage(t)
		c.add(claims.DefaultLifetime)
		var mu sync.Mutex
		total := 0
		together(4, func(int) {
			ended, err := manager(dir, c).Reap(t.Context())
			noErr(t, err)
			mu.Lock()
			total += len(ended)
			mu.Unlock()
		})
		check(t, dir, total)
	})
	t.Run("processes", func(t *testing.T) {
		dir, _ := stage(t)
		agents := agents(t, dir, 3)
		for _, a := range agents {
			a.Say("later 5m")
		}
		for _, a := range agents {
			a.Order("reap")
		}
		total := 0
		for _, a := range agents {
			var n int
			if answer := a.Answer(); !strings.HasPrefix(answer, "ok ") {
				t.Error(answer)
			} else {
				fmt.Sscanf(answer, "ok %d", &n)
				total += n
			}
		}
		check(t, dir, total)
	})
}
