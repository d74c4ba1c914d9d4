//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// safety looks at what all the speed is for.
func (b *bench) safety() {
	for _, p := range b.peers {
		if p.Name == protocolName {
			continue // it is no lock
		}
		b.say("safety: %s", p.Name)
		s := Safety{Peer: p.Name}
		if err := b.stress(p, &s); err != nil {
			s.Note = err.Error()
		}
		s.Removed, s.Told = b.tamper(p, 0, os.RemoveAll)
		s.Replaced, _ = b.tamper(p, 0, replace)
		if len(p.lockFiles("")) > 1 {
			s.OtherRemoved, _ = b.tamper(p, 1, os.RemoveAll)
			s.OtherNew, _ = b.tamper(p, 1, replace)
		}
		b.r.Safety = append(b.r.Safety, s)
	}
}

// stress has eight processes contend, one of which is killed every few milliseconds
// and replaced, and then sees whether anybody still gets the lock.
func (b *bench) stress(p *peer, s *Safety) error {
	const procs = 8
	path := b.fresh(b.fast())
	running := make([]*process, procs)
	type saying struct {
		by   *process
		line string // "" when it has gone
	}
	said := make(chan saying, 1024)
	launch := func(i int) error {
		a, err := start(p, path)
		if err != nil {
			return err
		}
		running[i] = a
		go func() {
			for line := range a.lines {
				said <- saying{a, line}
			}
			said <- saying{a, ""}
		}()
		return a.order("stress")
	}
	gone := map[*process]bool{} // they have said their last
	hear := func(it saying) {
		gone[it.by] = gone[it.by] || it.line == ""
		// What is neither of these is what a process was killed in the middle of.
		switch it.line {
		case "ok 0":
			s.Overlaps++
			fallthrough
		case "ok 1":
			s.Acquired++
		default:
			if why, failed := strings.CutPrefix(it.line, "error "); failed {
				s.Note = "a process failed: " + why
			}
		}
	}
	stop := func(a *process) {
		for a.cmd.Process.Kill(); !gone[a]; {
			it := <-said
			hear(it)
		}
		a.cmd.Wait()
		a.in.Close()
	}
	for i := range procs {
		if err := launch(i); err != nil {
			return err
		}
	}
	defer func() {
		for _, a := range running {
			stop(a)
		}
		counted, _ := os.ReadFile(path + ".counter")
		n, _ := strconv.Atoi(string(counted))
		s.Lost = max(0, s.Acquired-n)
	}()
	for end := time.Now().Add(pick(b, 2500*time.Millisecond, 500*time.Millisecond)); time.Now().Before(end); {
		for kill := time.After(5*time.Millisecond + rand.N(15*time.Millisecond)); kill != nil; {
			select {
			case it := <-said:
				hear(it)
			case <-kill:
				kill = nil
			}
		}
		i := rand.IntN(procs)
		stop(running[i])
		s.Kills++
		if err := launch(i); err != nil {
			return err
		}
	}
	// Does it still go? What was said before may be on its way yet, so it counts only
	// after a moment.
	settled, limit := time.Now().Add(100*time.Millisecond), pick(b, 4*time.Second, time.Second)
	for end := time.After(limit); ; {
		select {
		case it := <-said:
			hear(it)
			if strings.HasPrefix(it.line, "ok") && time.Now().After(settled) {
				return nil
			}
		case <-end:
			s.Wedged = fmt.Sprintf("nobody had it for %v after the last kill", limit)
			return nil
		}
	}
}

// tamper lets somebody remove or replace a file of a lock that is held, and sees
// whether another process then gets it too, and what the first is told.
func (b *bench) tamper(p *peer, file int, how func(string) error) (outcome, told string) {
	path := b.fresh(b.fast())
	pair, stop, err := group(p, path, 2)
	if err != nil {
		return err.Error(), ""
	}
	defer stop()
	if _, err := pair[0].ask(handLimit, "lock"); err != nil {
		return err.Error(), ""
	}
	if err := how(p.lockFiles(path)[file]); err != nil {
		return err.Error(), ""
	}
	switch _, err := pair[1].ask(p.needs(), "lock"); {
	case err == nil:
		outcome = "second holder"
	case errors.Is(err, errHung):
		outcome = "kept out"
	default:
		outcome = "refused: " + err.Error()
	}
	told = "nothing"
	if _, err := pair[0].ask(handLimit, "unlock"); err != nil {
		told = "error"
	}
	return outcome, told
}

// replace puts an empty file, or folder, in another's place.
func replace(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	other := path + ".other"
	if info.IsDir() {
		err = os.Mkdir(other, 0o700)
	} else {
		err = os.WriteFile(other, nil, 0o600)
	}
	if err != nil {
		return err
	}
	return unix.Rename(other, path) // os.Rename refuses folders
}
