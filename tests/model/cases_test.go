package model

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

var (
	update   = flag.Bool("update", false, "write what is expected anew")
	complete = flag.Bool("complete", false, "explore the long cases, too, and write ../results/model.txt")
)

func TestMain(m *testing.M) { testkit.Main(m, func(string, []string) {}) }

// results is what -complete keeps.
var results = filepath.Join("..", "results", "model.txt")

// limit bounds the states of one case. It is not reached.
const limit = 40_000_000

// TestCases goes through all that can happen in each case.
func TestCases(t *testing.T) {
	var cases []Case
	for _, c := range Cases() {
		if !c.Long || *complete {
			cases = append(cases, c)
		}
	}
	lines := make([]string, len(cases))
	var all Result
	var mu sync.Mutex
	began := time.Now()
	workers := make(chan struct{}, 2)
	t.Run("all", func(t *testing.T) {
		for i, c := range cases {
			t.Run(halves[c.Part].name+c.Name+" "+c.rolesText(), func(t *testing.T) {
				t.Parallel()
				workers <- struct{}{}
				defer func() { <-workers }()
				r := c.Explore(limit)
				if r.Violation != none || r.Cut {
					t.Errorf("%v (cut short: %v)\n%s", r.Violation, r.Cut, r.Trace)
				}
				mu.Lock()
				defer mu.Unlock()
				lines[i] = fmt.Sprintf("%9d %10d %6d  %s", r.States, r.Transitions, r.Depth, c.String())
				all.States += r.States
				all.Transitions += r.Transitions
			})
		}
	})
	sum := fmt.Sprintf("%d cases, %d states, %d transitions", len(cases), all.States, all.Transitions)
	t.Log(sum)
	for _, l := range lines {
		t.Log(l)
	}
	if *complete && !t.Failed() && !slices.Contains(lines, "") { // -run may have left some out
		text := fmt.Sprintf("go test ./model -complete, in tests: no violation in any case.\n%s, in %v, %s %s/%s, %d processors.\n\n   states transitions  depth  case\n%s\n",
			sum, time.Since(began).Round(time.Second), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), strings.Join(lines, "\n"))
		if err := os.WriteFile(results, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// TestGuards: with all guards nothing goes wrong in a guard's case; without that one something
// does, as it is kept in testdata.
func TestGuards(t *testing.T) {
	for _, g := range Guards {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			m := g.Case
			m.Name = g.Name
			if r := m.Explore(limit); r.Violation != none {
				t.Fatalf("with all guards: %v\n%s", r.Violation, r.Trace)
			}
			g.counterexample(t)
		})
	}
}

// TestHalves: each guard is needed in the half that it is of, in what that half has of its case, and
// in no other half. So each half finds every fault that is of its room.
func TestHalves(t *testing.T) {
	for _, g := range Guards {
		for p := lockFileHalf; p <= queueHalf; p++ {
			of, can := g, false
			of.Case, can = g.Case.half(p)
			if found := can && of.Break().Violation == g.Prevents; found != (p == g.Of) {
				t.Errorf("%s%s: its fault is found here: %v", halves[p].name, g.Name, found)
			}
			if r := of.Case.Explore(limit); p == g.Of && r.Violation != none {
				t.Errorf("%s%s, with all guards: %v\n%s", halves[p].name, g.Name, r.Violation, r.Trace)
			}
		}
	}
}

// TestFormer: the former protocol shows the holes that it had.
func TestFormer(t *testing.T) {
	for _, g := range FormerHoles {
		t.Run(g.Name, func(t *testing.T) { g.counterexample(t) })
	}
}

// TestOpen: what the docs leave open is as they say. What is no more would be news.
func TestOpen(t *testing.T) {
	for _, g := range Open {
		t.Run(g.Name, func(t *testing.T) { g.counterexample(t) })
	}
}

// TestSpare: no short case depends on a spare guard alone.
func TestSpare(t *testing.T) {
	for _, g := range Spare {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			for _, c := range Cases() {
				if c.Long || len(c.Roles) > 2 && !*complete {
					continue
				}
				c.without = g.Without.set()
				if r := c.Explore(limit); r.Violation != none {
					t.Errorf("it is needed:\n%s", r.Trace)
				}
			}
		})
	}
}

// counterexample compares what goes wrong without a guard with what is kept.
func (g *Guard) counterexample(t *testing.T) {
	t.Helper()
	r := g.Break()
	if r.Violation != g.Prevents {
		t.Fatalf("without it: %v, want %v", r.Violation, g.Prevents)
	}
	got := fmt.Sprintf("# %s: %s.\n%s", g.Name, g.Does, r.Trace)
	path := filepath.Join("testdata", g.Name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s is not this (%v); -update writes it anew:\n%s", path, err, got)
	}
}
