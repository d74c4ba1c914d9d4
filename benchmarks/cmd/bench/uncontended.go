//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// uncontended measures an acquisition and a release that nobody disturbs.
func (b *bench) uncontended() {
	allocs := map[string]int64{}
	for _, dir := range b.folders() {
		var all []contestant
		for _, p := range b.peers {
			a, err := start(p, b.fresh(dir.path))
			all = append(all, contestant{p.Name, func() (float64, error) {
				if err != nil {
					return 0, err
				}
				got, err := a.ask(10*time.Second, "cycle", int64(pick(b, 25*time.Millisecond, 5*time.Millisecond)))
				if err != nil {
					a.kill()
					return 0, err
				}
				allocs[p.Name] = got[2]
				return float64(got[1]) / float64(got[0]), nil
			}})
			if err == nil {
				defer a.kill()
			}
		}
		b.r.Uncontended = append(b.r.Uncontended, takeTurns(dir.name, b.rounds(12, 2), 10*time.Second, floorName, all)...)
	}
	for _, p := range b.peers {
		c := Cost{Peer: p.Name, Allocs: allocs[p.Name]}
		if p.script != "" {
			c.Allocs = -1
		}
		b.r.Costs = append(b.r.Costs, c)
	}
}

// costs counts the system calls of an acquisition and a release, once, by strace(1).
func (b *bench) costs() {
	if _, err := exec.LookPath("strace"); err != nil {
		b.r.Skipped = append(b.r.Skipped, "system calls: strace is not installed")
		return
	}
	for _, p := range b.peers {
		i := slices.IndexFunc(b.r.Costs, func(c Cost) bool { return c.Peer == p.Name })
		if i < 0 {
			b.r.Costs = append(b.r.Costs, Cost{Peer: p.Name, Allocs: -1})
			i = len(b.r.Costs) - 1
		}
		c := &b.r.Costs[i]
		if err := b.trace(p, c); err != nil {
			c.Note = err.Error()
		}
	}
}

// trace takes the difference between many acquisitions and none, so that what it
// costs to start and end a process does not count.
func (b *bench) trace(p *peer, c *Cost) error {
	many := int64(pick(b, 200, 20))
	var counts [2]map[string]float64
	for i, n := range []int64{0, many} {
		path := b.fresh(b.fast())
		log := filepath.Join(filepath.Dir(path), "strace")
		a, err := start(p, path, "strace", "-f", "-c", "-qq", "-o", log)
		if err != nil {
			return err
		}
		defer a.kill()
		if _, err := a.ask(20*time.Second, "times", n); err != nil {
			return err
		}
		if err := a.end(10 * time.Second); err != nil {
			return err
		}
		if counts[i], err = readStrace(log); err != nil {
			return err
		}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(counts[1])) {
		if waiting[name] {
			continue
		}
		each := (counts[1][name] - counts[0][name]) / float64(many)
		c.Syscalls += each
		if each >= 0.5 {
			names = append(names, fmt.Sprintf("%s %s", name, strconv.FormatFloat(each, 'f', 0, 64)))
		}
	}
	c.Calls = strings.Join(names, ", ")
	return nil
}

// waiting are calls that a language's scheduler makes as time goes by, which strace
// stretches: they say nothing about the lock.
var waiting = map[string]bool{"nanosleep": true, "futex": true, "epoll_pwait": true, "sched_yield": true,
	"madvise": true, "tgkill": true, "rt_sigreturn": true}

// readStrace reads how often each system call was made.
func readStrace(path string) (map[string]float64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	counts := map[string]float64{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// % time, seconds, usecs/call, calls, perhaps errors, syscall
		words := strings.Fields(lines.Text())
		if len(words) < 5 || words[len(words)-1] == "total" {
			continue
		}
		if n, err := strconv.ParseFloat(words[3], 64); err == nil {
			counts[words[len(words)-1]] = n
		}
	}
	if len(counts) == 0 {
		return nil, errors.New("strace counted nothing")
	}
	return counts, nil
}

// end lets a process end by itself, having nothing more to do.
func (a *process) end(limit time.Duration) error {
	a.in.Close()
	select {
	case _, more := <-a.lines:
		if more {
			return errors.New("it said something that it was not asked")
		}
	case <-time.After(limit):
		a.kill()
		return errHung
	}
	a.once.Do(func() { a.cmd.Wait() })
	return nil
}
