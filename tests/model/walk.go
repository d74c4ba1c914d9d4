package model

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A Walk is one way through a machine that pauses at hooks only, from the start to the end,
// to be replayed by package lock's TestModel.
type Walk struct {
	Machine *Machine
	Lines   []Line
}

// String is what the replay reads: the case, and for each step who takes it, where they are
// then, and what is on disk.
func (w *Walk) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "case %s", w.Machine.rolesText())
	for _, f := range []struct {
		on   bool
		name string
	}{{w.Machine.Tidy, "tidy"}, {w.Machine.Fence, "fence"}, {w.Machine.DeadFile, "dead-file"}, {w.Machine.DeadMarker, "dead-marker"}} {
		if f.on {
			b.WriteString(" " + f.name)
		}
	}
	fmt.Fprintf(&b, " # %s\n", w.Machine.Name)
	for _, l := range w.Lines {
		who, at := "-", l.Does
		if l.Who >= 0 {
			who = string(rune('A' + l.Who))
			switch at = l.At; {
			case at == "dead":
				at = "killed"
			case strings.HasPrefix(l.Does, "is stopped"):
				at = "stopped"
			case strings.Contains(l.Does, "is cancelled"):
				at = cancelledAt + at
			case strings.Contains(l.Does, "fails to remove"):
				at = unlinkFails + at
			}
		}
		fmt.Fprintf(&b, "%s %s | %s\n", who, at, l.Disk)
	}
	return b.String()
}

// What befalls somebody on the way to a hook.
const (
	cancelledAt = "is cancelled, "
	unlinkFails = "can't remove its file, "
)

type choice struct {
	act act
	to  state
}

// choices are the moves that can be replayed, in order.
func (m *Machine) choices(s *state) (all []choice) {
	m.next(s, func(a act, to *state) {
		if *to != *s {
			all = append(all, choice{a, *to})
		}
	})
	return all
}

// paused is the machine as it is walked through: with all that there is, in order, and at hooks
// only.
func (m *Machine) paused() *Machine {
	p := *m
	p.Turnstile, p.Order, p.Hooks, p.inOrder = true, false, true, true
	return &p
}

// walk follows choices to the end. pick returns which one to take.
func (m *Machine) walk(pick func(s *state, all []choice) int) *Walk {
	w := &Walk{Machine: m}
	s := m.start()
	for {
		all := m.choices(&s)
		if len(all) == 0 || len(w.Lines) == most {
			return w
		}
		k := pick(&s, all)
		if k < 0 {
			return w
		}
		w.add(all[k])
		s = all[k].to
	}
}

func (w *Walk) add(c choice) {
	l := Line{Who: c.act.who, Does: c.act.does, Disk: w.Machine.disk(&c.to)}
	if l.Who >= 0 {
		switch at := steps[c.to.proc[l.Who].at]; {
		case at.says != "":
			l.At = at.says
		case !at.hook && at.waits != "":
			l.At = at.waits
		default:
			l.At = at.name
		}
	}
	w.Lines = append(w.Lines, l)
}

// most bounds a walk: some who wait look again and again.
const most = 300

// A crossing is a state with the moves that can be made there.
type crossing struct {
	choices []choice
	leads   []int // where each choice leads
	taken   []bool
	back    []int // from where one comes here
}

// crossings are all states that can be reached.
func (m *Machine) crossings() (all []*crossing) {
	start := m.start()
	number := map[state]int{start: 0}
	order := []state{start}
	for k := 0; k < len(order); k++ {
		c := &crossing{choices: m.choices(&order[k])}
		for _, o := range c.choices {
			n, is := number[o.to]
			if !is {
				n = len(order)
				number[o.to] = n
				order = append(order, o.to)
			}
			c.leads = append(c.leads, n)
		}
		c.taken = make([]bool, len(c.choices))
		all = append(all, c)
	}
	for k, c := range all {
		for _, n := range c.leads {
			all[n].back = append(all[n].back, k)
		}
	}
	return all
}

// Cover returns walks that together take every move of a machine at least once.
func (m *Machine) Cover() (walks []*Walk) {
	m = m.paused()
	all := m.crossings()
	for {
		w, fresh := &Walk{Machine: m}, false
		far := distances(all)
		for k := 0; len(all[k].choices) > 0 && len(w.Lines) < most; {
			c, best := all[k], 0
			for i := range c.choices {
				if !c.taken[i] {
					best = i
					break
				}
				if far[c.leads[i]] < far[c.leads[best]] {
					best = i
				}
			}
			fresh = fresh || !c.taken[best]
			c.taken[best] = true
			w.add(c.choices[best])
			k = c.leads[best]
		}
		if !fresh {
			return walks
		}
		walks = append(walks, w)
	}
}

// distances returns how many moves each state is from one in which a move was not taken;
// where there is none, from an end, and that is farther than any other.
func distances(all []*crossing) []int {
	const never, end = 1 << 30, 1 << 20
	d := make([]int, len(all))
	var fresh, ends []int
	for k, c := range all {
		d[k] = never
		for _, t := range c.taken {
			if !t {
				d[k] = 0
			}
		}
		if d[k] == 0 {
			fresh = append(fresh, k)
		} else if len(c.choices) == 0 {
			ends = append(ends, k)
		}
	}
	spread := func(queue []int) {
		for i := 0; i < len(queue); i++ {
			for _, p := range all[queue[i]].back {
				if d[p] == never {
					d[p] = d[queue[i]] + 1
					queue = append(queue, p)
				}
			}
		}
	}
	spread(fresh)
	for _, k := range ends {
		if d[k] == never {
			d[k] = end
		}
	}
	spread(ends)
	return d
}

// Sample returns random walks.
func (m *Machine) Sample(r *rand.Rand, n int) (walks []*Walk) {
	m = m.paused()
	for range n {
		walks = append(walks, m.walk(func(_ *state, all []choice) int { return r.IntN(len(all)) }))
	}
	return walks
}

// Along returns a walk with the schedule of a trace: whoever moves in it moves here, as far as
// they can, and what befalls them, and the files, does so here.
func (m *Machine) Along(tr *Trace) *Walk {
	m = m.paused()
	var moved, after [maxProcs]int // moves that each process is ahead; and that it has made after the schedule
	k := 0
	return m.walk(func(s *state, all []choice) int {
		for ; k < len(tr.Steps); k++ {
			l := tr.Steps[k]
			for n, c := range all {
				same := c.act.who == l.Who && c.act.isEnv == (c.act.does == l.Does && l.Who < 0 || isFate(l.Does))
				if !same || l.Who < 0 && c.act.does != l.Does || isFate(l.Does) && c.act.does != l.Does {
					continue
				}
				if l.Who >= 0 && !isFate(l.Does) {
					if moved[l.Who] > 0 { // it is ahead, as it pauses at hooks only
						moved[l.Who]--
						continue
					}
					moved[l.Who] = strings.Count(c.act.does, "; ")
				}
				k++
				return n
			}
		}
		// The schedule is over: all go on in turn, so that all end.
		best := -1
		for n, c := range all {
			if !c.act.isEnv && (best < 0 || after[c.act.who] < after[all[best].act.who]) {
				best = n
			}
		}
		if best >= 0 {
			after[all[best].act.who]++
		}
		return best
	})
}

func isFate(does string) bool {
	return strings.HasPrefix(does, "is killed") || strings.HasPrefix(does, "is stopped") ||
		strings.HasPrefix(does, "becomes another") || strings.HasPrefix(does, "comes again")
}

// Replayable reports whether real processes can be made to do all that happens in a machine.
//
// Not replayed are: crashes in fallback mode, as the next holder clears away, too, what was
// written aside, which the model does not have; a clock that is set back, which processes share;
// what happens between a look and the removal after it (Gaps), where no hook is; the former
// protocol, of which there is no code; an Acquire that is cancelled while it waits for the lock
// file, whose thread goes on without hooks, and a process that looks again in the background
// whether a readers' file can go (machines that pause at hooks have neither); another program
// that dies, as the file that it leaves empty has to age; a half, as processes have both.
func (m *Machine) Replayable() bool {
	for _, r := range m.Roles {
		if !strings.ContainsRune("wrtuiFKELb", rune(r)) {
			return false
		}
		if r == Fallback && m.Budget[crashes] > 0 {
			return false
		}
		// What another program has left empty only ages.
		if !r.participant() && r != Flock && m.Budget[crashes] > 0 {
			return false
		}
	}
	return m.Budget[setBack] == 0 && !m.Gaps && m.Part == joint
}
