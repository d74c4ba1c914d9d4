//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// report renders results as Markdown.
func report(r *Results, plots map[string]string) string {
	w := &writer{}
	w.line("# Locks between processes, measured side by side: %s", r.Date)
	w.line("Made by `sh benchmarks/run.sh` in %s, and not edited: the same command makes it on any Linux.", r.Took)
	if r.Quick {
		w.line("**This was a quick run, which only shows that everything works. Its figures mean nothing.**")
	}
	m := r.Machine
	w.line("%s, %d CPUs, %s; %s; %s; disk: %s, memory: %s; holdfast at %s.",
		m.CPU, m.CPUs, m.Memory, m.Kernel, m.Go, m.Disk, m.Tmpfs, m.Commit)
	w.line("Times are medians, with quartiles in brackets, of runs in which all had their turns one after the " +
		"other.")
	w.line("- *floor*: the system calls alone, without a library, in the same turns; `×` is the ratio to the first of them.\n" +
		"- *turns*: how often each of the processes had the lock, from the fewest to the most.\n" +
		"- *overlaps*: acquisitions that found another holder at work.")
	w.line("%s", mainTable(r))
	w.plot(plots, "handoff", "p99")

	w.line("## What each of them is")
	w.table("peer | version | waits | who holds it? | after a kill | loss noticed | fence | wait ends by")
	for _, p := range r.Peers {
		if p.Missing != "" {
			w.row(p.Name, "not measured: "+p.Missing, "", "", "", "", "", "")
			continue
		}
		o := p.Offers
		w.row(p.Name, p.Version, p.Waits, o.Identity, o.Crash, o.Ownership, o.Fence, o.Cancel)
	}
	w.line("\n\"kernel\": the kernel drops the lock of a process that ends, however it ends.")

	w.figures("Acquire and release, uncontended", r.Uncontended,
		"Every acquisition begins with a path: what could be kept open from one to the next is opened anew.")
	costs(w, r)
	w.calls("Where the time of an acquisition and release goes", r.Calls,
		"Each of the calls by itself, without the library: "+protocolName+" makes all of them.")
	w.figures("Hand-off between two processes", r.Handoff,
		"From just before the release in one process until just after the acquisition in another, which waits. "+
			"Those that poll are met at a random point between two tries.")
	w.calls("Where the time of a hand-off goes", r.HandoffCalls, "By the bare calls, in two threads: what passes from "+
		"one to the next. Whoever has slept makes its first calls with cold caches, on a processor that slept, too.")
	w.figures("Hand-off after SIGKILL", r.AfterKill, "From SIGKILL for the holder until the acquisition in another process, which waits.")
	w.figures("Taking the lock of one who was killed before", r.Reclaim, "Nobody waited when the holder was killed.")
	contentions(w, r)
	crowds(w, r)
	w.figures("Who has it: looking", r.Looks, "Of locks that are held, in one folder. The others have nothing to look at.")
	if len(r.Shared) > 0 {
		w.line("\n## Readers\n\nEight processes read for 2 ms each, together, against one.\n")
		w.table("peer | one, a second | eight, a second | gain | note")
		for _, s := range r.Shared {
			w.row(s.Peer, digits(s.One), digits(s.All), times(s.Gain), s.Note)
		}
	}
	w.figures("Ledger, and changing a file", r.Ledger, "The floor writes, syncs and renames, and has no lock.")
	w.figures("PostgreSQL", r.Postgres, "The floor is `pg_advisory_lock` and `pg_advisory_unlock`, through the same driver.")
	safeties(w, r)
	losses(w, r)
	if len(r.Skipped) > 0 {
		w.line("\n## Not measured\n")
		for _, s := range r.Skipped {
			w.line("- %s", s)
		}
	}
	return strings.ReplaceAll(w.String(), "\n\n\n", "\n\n")
}

// writer writes Markdown.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n\n", args...) }

// table begins a table, after a line; its rows follow.
func (w *writer) table(heads string) {
	columns := strings.Count(heads, "|") + 1
	fmt.Fprintf(w, "| %s |\n|%s\n", heads, strings.Repeat("---|", columns))
}

func (w *writer) row(cells ...string) {
	for i, c := range cells {
		if c = strings.ReplaceAll(c, "|", "\\|"); c == "" {
			c = "-"
		}
		cells[i] = c
	}
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

func (w *writer) plot(plots map[string]string, names ...string) {
	for _, name := range names {
		if file := plots[name]; file != "" {
			w.line("![%s](%s)", captions[name], file)
		}
	}
}

var captions = map[string]string{
	"handoff": "hand-off latency of each peer",
	"p99":     "99th percentile of waits against the number of processes",
}

// figures is a section with a table for each setting.
func (w *writer) figures(title string, all []Figure, about string) {
	if len(all) == 0 {
		return
	}
	w.line("\n## %s\n\n%s", title, about)
	last := "\x00"
	for _, f := range all {
		if f.Setting != last {
			last = f.Setting
			if last != "" {
				w.line("\n### %s", last)
			}
			w.table("peer | median | × | n | note")
		}
		time := "-"
		if f.N > 0 {
			time = fmt.Sprintf("%s (%s to %s)", duration(f.Median), duration(f.Low), duration(f.High))
		}
		w.row(f.Peer, time, times(f.Ratio), fmt.Sprint(f.N), f.Note)
	}
}

// calls is a section with a row for each system call, and a column for each folder.
func (w *writer) calls(title string, all []Call, about string) {
	if len(all) == 0 {
		return
	}
	w.line("\n### %s\n\n%s", title, about)
	var folders, names []string
	took, sums := map[[2]string]float64{}, map[string]float64{}
	for _, c := range all {
		if !slices.Contains(folders, c.Where) {
			folders = append(folders, c.Where)
		}
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
		took[[2]string{c.Where, c.Name}] = c.Median
		if c.Name != floorName {
			sums[c.Where] += c.Median
		}
	}
	w.table(strings.Join(append([]string{"call"}, folders...), " | "))
	row := func(name string, of func(where string) float64) {
		cells := []string{name}
		for _, where := range folders {
			cells = append(cells, duration(of(where)))
		}
		w.row(cells...)
	}
	for _, name := range names {
		row(name, func(where string) float64 { return took[[2]string{where, name}] })
	}
	row("**all, but the floor**", func(where string) float64 { return sums[where] })
}

func costs(w *writer, r *Results) {
	if len(r.Costs) == 0 {
		return
	}
	w.line("\n### What one acquisition and release takes besides")
	w.table("peer | allocations | system calls | which, if more than every other time | note")
	for _, c := range r.Costs {
		allocs := fmt.Sprint(c.Allocs)
		if c.Allocs < 0 {
			allocs = "-"
		}
		w.row(c.Peer, allocs, digits(c.Syscalls), c.Calls, c.Note)
	}
	w.line("\nSystem calls are what strace(1) sees of the process, less those with which a language's scheduler waits.")
}

func contentions(w *writer, r *Results) {
	if len(r.Contention) == 0 {
		return
	}
	w.line("\n## Contention\n\nEach process takes the lock, holds it for 2 ms, and thinks for 0 or 1 ms. "+
		"\"fewest\" and \"most\" are acquisitions of one process in %s.", "a pass")
	type setting struct{ n, think int }
	groups := map[setting][]Contention{}
	for _, c := range r.Contention {
		k := setting{c.N, c.ThinkMS}
		groups[k] = append(groups[k], c)
	}
	order := slices.SortedFunc(maps.Keys(groups), func(a, b setting) int { return (a.think-b.think)*1000 + a.n - b.n })
	for _, k := range order {
		w.line("\n### %d processes, %d ms to think", k.n, k.think)
		w.table("peer | a second (passes) | × | fewest | most | wait p50 | p99 | × | longest | note")
		for _, c := range groups[k] {
			w.row(c.Peer, fmt.Sprintf("%s (%s to %s)", digits(c.PerSecond), digits(c.Low), digits(c.High)), times(c.RatioTotal),
				fmt.Sprint(c.Fewest), fmt.Sprint(c.Most), duration(c.P50), duration(c.P99), times(c.RatioP99), duration(c.Longest), c.Note)
		}
	}
}

func crowds(w *writer, r *Results) {
	if len(r.Crowd) == 0 {
		return
	}
	w.line("\n## %d goroutines that wait", r.Crowd[0].Goroutines)
	w.line("In one process, for a lock that another one has, which then gives it up. \"clashes\" are acquisitions that " +
		"were not alone within the process, or failed: not every peer means to exclude goroutines.")
	w.table("peer | threads | memory | until all had it | × | clashes | note")
	for _, c := range r.Crowd {
		w.row(c.Peer, fmt.Sprint(c.Threads), digits(float64(c.MemoryKB)/1024)+" MiB", duration(c.Drain), times(c.Ratio),
			fmt.Sprint(c.Clashes), c.Note)
	}
}

func safeties(w *writer, r *Results) {
	if len(r.Safety) == 0 {
		return
	}
	w.line("\n## Safety\n\nEight processes acquire, put up a mark, raise a counter, and release, while one of them is " +
		"killed every few milliseconds and replaced. \"overlaps\" are acquisitions that saw another's mark, \"lost\" " +
		"counts that another overwrote. Then the lock file is removed, or replaced, while the lock is held.")
	w.table("peer | acquisitions | kills | overlaps | lost | wedged | file removed | file replaced | the holder is told by release | note")
	for _, s := range r.Safety {
		w.row(s.Peer, fmt.Sprint(s.Acquired), fmt.Sprint(s.Kills), fmt.Sprint(s.Overlaps), fmt.Sprint(s.Lost), s.Wedged,
			both(s.Removed, s.OtherRemoved), both(s.Replaced, s.OtherNew), s.Told, s.Note)
	}
	w.line("\nWhere there are two files, the outcomes are those for the first and for the second.")
}

func both(one, other string) string {
	if other == "" || other == one {
		return one
	}
	return one + "; " + other
}
