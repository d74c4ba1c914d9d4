//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// readmeRows are those of the README: the floors, holdfast, the library of its kind that most
// use, and the fastest that names its holder.
var readmeRows = []string{floorName, protocolName, oursName, "gofrs/flock", "nightlyone/lockfile"}

// mainTable is the table of all peers, or of these.
func mainTable(r *Results, only ...string) string {
	w := &writer{}
	w.table("peer | acquire, release, on disk | hand-off, on disk | hand-off after SIGKILL | p99 wait, " + fmt.Sprint(sharesOf(r)) +
		" processes | turns of each | overlaps in the stress | file replaced while held")
	for _, p := range r.Peers {
		if p.Missing != "" || len(only) > 0 && !slices.Contains(only, p.Name) {
			continue
		}
		wait, turns := "-", "-"
		for _, c := range r.Contention {
			if c.Peer == p.Name && c.N == sharesOf(r) && c.ThinkMS == 0 && c.PerSecond > 0 {
				wait, turns = duration(c.P99)+" ("+times(c.RatioP99)+")", fmt.Sprintf("%d to %d", c.Fewest, c.Most)
			}
		}
		overlaps, replaced := "-", "-"
		for _, s := range r.Safety {
			if s.Peer == p.Name {
				overlaps, replaced = fmt.Sprintf("%d of %d", s.Overlaps, s.Acquired), both(s.Replaced, s.OtherNew)
				if s.Wedged != "" {
					overlaps += ", then stuck"
				}
			}
		}
		name := p.Name
		if name == oursName {
			name = "**" + name + "**"
		}
		w.row(name, cell(r.Uncontended, p.Name), cell(r.Handoff, p.Name), cell(r.AfterKill, p.Name), wait, turns, overlaps, replaced)
	}
	return w.String()
}

// sharesOf is the number of processes whose waits and turns are shown.
func sharesOf(r *Results) (n int) {
	for _, c := range r.Contention {
		if c.N <= 24 {
			n = max(n, c.N)
		}
	}
	return n
}

// cell is a figure in short, of the first setting, which is the disk.
func cell(all []Figure, peer string) string {
	for _, f := range all {
		if f.Peer == peer && f.N > 0 {
			return duration(f.Median) + " (" + times(f.Ratio) + ")"
		}
	}
	return "-"
}

// losses says where others are faster, and why.
func losses(w *writer, r *Results) {
	w.line("\n## Where holdfast is slower, and why")
	for _, m := range []struct {
		title  string
		all    []Figure
		reason string
	}{
		{"Acquire and release", r.Uncontended, "Every acquisition makes a file that says who holds the lock, and locks " +
			"that file, besides the one at which it queued; every release checks that the file is its own, and " +
			"removes it. What these system calls cost by themselves is the row \"" + protocolName + "\"; the rest is the " +
			"queue and the making of the claim. An ext4 without a journal, which few have, takes up to a millisecond more for " +
			"half a minute after many other files were removed: to make a file, it passes over each inode that they had."},
		{"Hand-off", r.Handoff, "The holder removes its claim before it lets go, and the next one has written its own " +
			"before it says that it has the lock; both lie between the two moments that are measured."},
		{"Hand-off after SIGKILL", r.AfterKill, "The heir finds the claim of the dead, proves from the kernel that it is " +
			"dead, and removes it in a way that it may be killed in, too."},
		{"Taking the lock of the dead", r.Reclaim, "The same: where there is no claim, there is nothing to reclaim, and " +
			"nobody can tell who it was. Two files are made, and two removed, and before each removal it is looked again " +
			"whether it is still the right one."},
		{"Looking", r.Looks, "It does not only read the claim, but asks the kernel whether it is true: of " +
			"one lock by its holder's descriptor, of a folder by the list of all locks. And it looks who waits, and what " +
			"the holder has noted, which is in the sibling: a second file to read."},
		{"Ledger", r.Ledger, "The floor has no lock. Ours takes one, finds the end, and remembers it."},
		{"PostgreSQL", r.Postgres, "The bare functions tell nobody the name of what is locked, give no fence, and do " +
			"not watch whether the session still lives."},
	} {
		slower(w, m.title, m.all, m.reason)
	}
	for _, c := range r.Contention {
		if c.Peer != oursName || c.RatioTotal == 0 {
			continue
		}
		if c.RatioTotal < 0.95 || c.RatioP99 > 1.05 {
			w.line("- **%d processes, %d ms to think**: %s of the floor's acquisitions, %s its p99 wait. A turn costs as much "+
				"more as an acquisition does (above), and it goes to who came first, in another process, where a bare "+
				"`flock` lets the same one have it again at once.", c.N, c.ThinkMS, times(c.RatioTotal), times(c.RatioP99))
		}
	}
	for _, c := range r.Crowd {
		if c.Peer == oursName && c.Ratio > 1.05 {
			w.line("- **%d goroutines**: %s the floor's time until all had it, with %d threads. Each of them makes and "+
				"removes a claim.", c.Goroutines, times(c.Ratio), c.Threads)
		}
	}
}

func slower(w *writer, title string, all []Figure, reason string) {
	settings := map[string]bool{}
	for _, ours := range all {
		if !strings.HasPrefix(ours.Peer, oursName) || ours.N == 0 || settings[ours.Setting] {
			continue
		}
		settings[ours.Setting] = true
		var faster []string
		for _, f := range all {
			if f.Setting == ours.Setting && f.N > 0 && f.Median < ours.Median*0.95 {
				faster = append(faster, fmt.Sprintf("%s %s", f.Peer, duration(f.Median)))
			}
		}
		if len(faster) == 0 {
			continue
		}
		if ours.Setting != "" {
			title = strings.SplitN(title, ", ", 2)[0] + ", " + ours.Setting
		}
		w.line("- **%s**: %s, %s the floor. Faster: %s.", title, duration(ours.Median), times(ours.Ratio), strings.Join(faster, ", "))
	}
	if len(settings) > 0 {
		w.line("  %s", reason)
	}
}

const (
	beginMark = "<!-- benchmarks:begin -->"
	endMark   = "<!-- benchmarks:end -->"
)

// fillReadme puts the main table and two plots between the marks in a file.
func fillReadme(readme string, r *Results, base string, plots map[string]string) error {
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	from, err := filepath.Abs(filepath.Dir(readme))
	if err != nil {
		return err
	}
	to, err := filepath.Abs(base)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(from, to)
	if err != nil {
		return err
	}
	filled, err := between(string(text), readmeSection(r, filepath.ToSlash(rel), plots))
	if err != nil {
		return fmt.Errorf("%s: %w", readme, err)
	}
	return os.WriteFile(readme, []byte(filled), 0o666)
}

func readmeSection(r *Results, base string, plots map[string]string) string {
	w := &writer{}
	w.line("## Measured")
	w.line("Medians, and × the bare system calls in the same run; %s, %d CPUs, %s. From [the report of %s](%s.md), made by "+
		"`sh benchmarks/run.sh`, which has all peers, what each offers, where holdfast is slower, and why. A floor is the system calls alone; turns are how often each of the processes had the lock.",
		r.Machine.Kernel, r.Machine.CPUs, r.Machine.Disk, r.Date, base)
	w.line("%s", mainTable(r, readmeRows...))
	at := map[string]string{}
	for name, file := range plots {
		at[name] = filepath.ToSlash(filepath.Join(filepath.Dir(base), file))
	}
	w.plot(at, "handoff", "p99")
	return strings.TrimSpace(strings.ReplaceAll(w.String(), "\n\n\n", "\n\n"))
}

// between replaces what is between the marks.
func between(text, section string) (string, error) {
	before, rest, ok := strings.Cut(text, beginMark)
	_, after, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return "", errors.New("it lacks the marks " + beginMark + " and " + endMark)
	}
	return before + beginMark + "\n" + section + "\n" + endMark + after, nil
}
