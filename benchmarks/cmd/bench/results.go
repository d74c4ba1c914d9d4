//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"
)

// Results are what one run has found. They are written as JSON beside the report, which
// is made from them and nothing else.
type Results struct {
	Date    string
	Quick   bool // too short to say anything
	Took    string
	Machine Machine
	Peers   []PeerInfo

	Uncontended  []Figure
	Costs        []Cost
	Calls        []Call
	Handoff      []Figure
	HandoffCalls []Call
	AfterKill    []Figure
	Reclaim      []Figure
	Contention   []Contention
	Crowd        []Crowd
	Looks        []Figure
	Shared       []Shared
	Ledger       []Figure
	Postgres     []Figure
	Safety       []Safety
	// Skipped are measurements that could not be made, and why.
	Skipped []string
}

// Machine is where it ran.
type Machine struct {
	CPU, Kernel, Go, Disk, Tmpfs string
	CPUs                         int
	Memory                       string
	Commit                       string // of holdfast
}

// PeerInfo is a peer as it was found on the machine.
type PeerInfo struct {
	Name, Version, Waits string
	Offers               offers
	Missing              string `json:",omitempty"`
}

// Figure is a time in ns, its median and quartiles, and the ratio of the median to
// that of the floor in the same setting.
type Figure struct {
	Peer, Setting     string
	N                 int
	Median, Low, High float64
	Ratio             float64
	Note              string `json:",omitempty"`
}

// Cost is what an uncontended acquisition and release takes but time.
type Cost struct {
	Peer     string
	Allocs   int64 // -1: not a Go program
	Syscalls float64
	Calls    string
	Note     string `json:",omitempty"`
}

// Call is what one system call takes, in ns, in one folder.
type Call struct {
	Where, Name string
	Median      float64
}

// Contention is N processes that want one lock. Waits are in ns.
type Contention struct {
	Peer              string
	N, ThinkMS        int
	PerSecond         float64 // the mean of the passes
	Low, High         float64 // of the passes
	Shares            []int   // acquisitions of each process, of the first pass, ascending
	Fewest, Most      int     // of all passes
	P50, P99, Longest float64
	RatioTotal        float64
	RatioP99          float64
	Note              string `json:",omitempty"`
}

// Crowd is many goroutines of one process that wait for another process.
type Crowd struct {
	Peer       string
	Goroutines int
	Threads    int64
	MemoryKB   int64
	Drain      float64 // ns
	Ratio      float64
	Clashes    int64
	Note       string `json:",omitempty"`
}

// Shared is the throughput of readers.
type Shared struct {
	Peer     string
	One, All float64 // acquisitions a second, of one reader and of all
	Gain     float64
	Note     string `json:",omitempty"`
}

// Safety is what became of exclusion.
type Safety struct {
	Peer                   string
	Acquired, Kills        int
	Overlaps, Lost         int
	Wedged                 string `json:",omitempty"`
	Removed, Replaced      string
	Told                   string // what the first holder's release said
	Note                   string `json:",omitempty"`
	OtherRemoved, OtherNew string `json:",omitempty"` // holdfast's second file
}

// contestant is measured in turn with others.
type contestant struct {
	name string
	step func() (ns float64, err error)
}

// takeTurns makes rounds, in each of which every contestant has a turn, so that what
// disturbs the machine disturbs all alike; in every other round backwards, as one may leave
// the kernel, or a cache, ready for the next. One that fails is out; one that has used up its
// budget stops early.
func takeTurns(setting string, rounds int, budget time.Duration, floor string, all []contestant) (figures []Figure) {
	samples := make([][]float64, len(all))
	notes := make([]string, len(all))
	spent := make([]time.Duration, len(all))
	for round := range rounds {
		for i := range all {
			if round%2 == 1 {
				i = len(all) - 1 - i
			}
			if notes[i] != "" || spent[i] > budget {
				continue
			}
			begin := time.Now()
			ns, err := all[i].step()
			spent[i] += time.Since(begin)
			if err != nil {
				notes[i] = err.Error()
				continue
			}
			samples[i] = append(samples[i], ns)
		}
	}
	base := 0.0
	for i, c := range all {
		f := summary(samples[i])
		f.Peer, f.Setting, f.Note = c.name, setting, notes[i]
		if c.name == floor {
			base = f.Median
		}
		figures = append(figures, f)
	}
	for i := range figures {
		if base > 0 {
			figures[i].Ratio = figures[i].Median / base
		}
	}
	return figures
}

func summary(s []float64) Figure {
	if len(s) == 0 {
		return Figure{}
	}
	slices.Sort(s)
	return Figure{N: len(s), Median: quantile(s, 0.5), Low: quantile(s, 0.25), High: quantile(s, 0.75)}
}

// quantile is of ascending numbers.
func quantile(s []float64, q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// duration writes ns with three digits.
func duration(ns float64) string {
	switch {
	case ns == 0:
		return "-"
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e6:
		return digits(ns/1e3) + " µs"
	case ns < 1e9:
		return digits(ns/1e6) + " ms"
	}
	return digits(ns/1e9) + " s"
}

func digits(x float64) string {
	switch {
	case x >= 99.95:
		return fmt.Sprintf("%.0f", x)
	case x >= 9.995:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func times(x float64) string {
	if x == 0 {
		return "-"
	}
	return digits(x) + " ×"
}
