//go:build linux

// Bench measures holdfast beside other ways to lock files, in one run, and writes a
// report with plots. A time by itself says nothing on a noisy machine, so the bare system
// calls that holdfast can't do without run beside it, in turn, and what counts is the ratio.
//
//	bench [-quick] [-only NAME] [-out DIR] [-readme FILE] [-disk DIR]    see run.sh
//	bench -from RESULTS.json [-readme FILE]    only writes the report anew
//	bench -base FILE [-only NAME]              compares two commits: see compare.sh
//
// It ends with 0 when the report is written, whatever it says; with 1 when holdfast has
// become slower than at the base; and with 2 when something failed.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// bench is one run.
type bench struct {
	quick     bool
	base      string // another build of this program, to be compared with
	disk, shm string // folders; shm is "" if there is no tmpfs
	peers     []*peer
	begun     time.Time
	r         Results
}

// measurements are in the order in which they run.
var measurements = []struct {
	name string
	run  func(*bench)
}{
	{"uncontended", (*bench).uncontended},
	{"costs", (*bench).costs},
	{"profile", (*bench).profile},
	{"handoff", (*bench).handoff},
	{"kill", (*bench).afterKill},
	{"reclaim", (*bench).reclaim},
	{"contention", (*bench).contention},
	{"crowd", (*bench).crowd},
	{"looks", (*bench).looks},
	{"shared", (*bench).sharedLocks},
	{"ledger", (*bench).ledger},
	{"postgres", (*bench).postgres},
	{"safety", (*bench).safety},
}

func main() {
	if name := os.Getenv(agentVar); name != "" {
		runAgent(name)
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		if errors.Is(err, errSlower) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}

func run() error {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	quick := flag.Bool("quick", false, "a run of about a minute, to see that everything works")
	only := flag.String("only", "", "only the measurements of these names, with commas between: "+strings.Join(names, ", "))
	out := flag.String("out", "", "the folder for the report; by default results, or a temporary one if the run is not a whole one")
	readme := flag.String("readme", "", "a file to fill in between its markers")
	disk := flag.String("disk", "", "a folder on the disk to measure; by default one on an ext4 that is made for it, if it may be mounted, or a temporary one")
	from := flag.String("from", "", "the results of an earlier run, to write its report anew")
	base := flag.String("base", "", "this program, built at another commit, to compare with")
	flag.Parse()
	if *from != "" {
		r, err := readResults(*from)
		if err != nil {
			return err
		}
		return write(r, filepath.Dir(*from), *readme)
	}
	// What is not a whole run must not take the place of one.
	whole := !*quick && *only == "" && *base == ""
	if *base != "" && *only == "" {
		*only = compared
	}
	switch {
	case *out != "", *base != "":
	case whole:
		*out = "results"
	default:
		dir, err := os.MkdirTemp("", "bench-report")
		if err != nil {
			return err
		}
		*out = dir
	}
	if !whole {
		*readme = ""
	}
	b, stop, err := newBench(*quick, *disk, *base)
	if err != nil {
		return err
	}
	defer stop()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		stop() // the agents end when nobody gives them orders
		os.Exit(1)
	}()
	for _, m := range measurements {
		if *only == "" || strings.Contains(","+*only+",", ","+m.name+",") {
			b.say("%s", m.name)
			b.guard(m.name, m.run)
		}
	}
	b.r.Took = time.Since(b.begun).Round(time.Second).String()
	b.say("done")
	if *base != "" {
		return compare(&b.r)
	}
	return write(&b.r, *out, *readme)
}

// guard keeps a mistake in one measurement from costing the others.
func (b *bench) guard(name string, run func(*bench)) {
	defer func() {
		if r := recover(); r != nil {
			b.r.Skipped = append(b.r.Skipped, fmt.Sprintf("%s: broken off: %v", name, r))
		}
	}()
	run(b)
}

func newBench(quick bool, disk, base string) (*bench, func(), error) {
	b := &bench{quick: quick, base: base, begun: time.Now()}
	var err error
	removeDisk := func() {}
	onImage := false
	if disk == "" {
		made, remove, err := makeDisk("ext4")
		if onImage = err == nil; onImage {
			disk, removeDisk = made, remove
		} else {
			b.r.Skipped = append(b.r.Skipped, "an ext4 made for the run, so the disk is that of temporary files: "+err.Error())
		}
	}
	if b.disk, err = os.MkdirTemp(disk, "bench"); err != nil {
		removeDisk()
		return nil, nil, err
	}
	if b.shm, err = os.MkdirTemp("/dev/shm", "bench"); err != nil {
		b.r.Skipped = append(b.r.Skipped, "tmpfs: "+err.Error())
	}
	if quick {
		handLimit = 3 * time.Second
	}
	stop := func() {
		os.RemoveAll(b.disk)
		removeDisk()
		if b.shm != "" {
			os.RemoveAll(b.shm)
		}
		removeScripts()
	}
	b.r.Date, b.r.Quick = b.begun.Format("2006-01-02"), quick
	b.r.Machine = machine(b.disk, b.shm)
	if onImage {
		b.r.Machine.Disk += ", an image made for the run"
	}
	all := peers
	if base != "" {
		all = withBase(base)
	}
	for _, p := range all {
		info := PeerInfo{Name: p.Name, Waits: p.Waits, Offers: p.Offers, Missing: p.missing()}
		if info.Missing == "" {
			info.Version = p.versionHere()
			b.peers = append(b.peers, p)
		} else {
			b.say("without %s: %s", p.Name, info.Missing)
		}
		b.r.Peers = append(b.r.Peers, info)
	}
	return b, stop, nil
}

// say tells on standard error how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0fs  %s\n", time.Since(b.begun).Seconds(), fmt.Sprintf(format, args...))
}

// pick is n, or less for a quick run.
func pick[T any](b *bench, full, quick T) T {
	if b.quick {
		return quick
	}
	return full
}

// rounds is how many turns each has: more of them when there are few to measure.
func (b *bench) rounds(full, quick int) int {
	if b.base != "" {
		full *= 5
	}
	return pick(b, full, quick)
}

// folder is one to measure in.
type folder struct{ name, path string }

func (b *bench) folders() []folder {
	all := []folder{{"disk", b.disk}}
	if b.shm != "" {
		all = append(all, folder{"tmpfs", b.shm})
	}
	return all
}

// fresh makes the path of a lock in a folder of its own.
func (b *bench) fresh(root string) string {
	dir, err := os.MkdirTemp(root, "")
	if err != nil {
		panic(err) // we have made the folder that it is in
	}
	return filepath.Join(dir, "lock")
}

// fast is the folder for what is not about filesystems.
func (b *bench) fast() string {
	if b.shm != "" {
		return b.shm
	}
	return b.disk
}

func readResults(path string) (*Results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Results{}
	return r, json.Unmarshal(text, r)
}

// write writes the results, the report and the plots, and fills in the README.
func write(r *Results, out, readme string) error {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	base := filepath.Join(out, r.Date)
	if err := os.WriteFile(base+".json", append(text, '\n'), 0o666); err != nil {
		return err
	}
	plots, err := plotAll(r, base)
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+".md", []byte(report(r, plots)), 0o666); err != nil {
		return err
	}
	fmt.Println(base + ".md")
	if readme == "" {
		return nil
	}
	return fillReadme(readme, r, base, plots)
}
