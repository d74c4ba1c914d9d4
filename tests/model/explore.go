package model

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// A Result is what came of exploring one machine.
type Result struct {
	Violation   violation
	States      int
	Transitions int
	Depth       int // of the farthest state
	Cut         bool
	Trace       *Trace // to the violation, by a shortest way
}

// graph is all states that were found, breadth first.
type graph struct {
	states []state
	from   []uint32
	// succ has, from first[k] on, where state k can go by itself, without anything befalling
	// anybody.
	succ, first []uint32
	table       []uint32 // of states, from 1, by hash
}

var seed = maphash.MakeSeed()

// find returns the number of a state, which it adds if it is new.
func (g *graph) find(s *state, from uint32) (n uint32, isNew bool) {
	if 2*len(g.states) >= len(g.table) {
		g.grow()
	}
	mask := uint64(len(g.table) - 1)
	for h := maphash.Comparable(seed, *s); ; h++ {
		n := g.table[h&mask]
		if n == 0 {
			g.states = append(g.states, *s)
			g.from = append(g.from, from)
			g.table[h&mask] = uint32(len(g.states))
			return uint32(len(g.states) - 1), true
		}
		if g.states[n-1] == *s {
			return n - 1, false
		}
	}
}

func (g *graph) grow() {
	g.table = make([]uint32, max(1<<12, 2*len(g.table)))
	mask := uint64(len(g.table) - 1)
	for i := range g.states {
		h := maphash.Comparable(seed, g.states[i])
		for g.table[h&mask] != 0 {
			h++
		}
		g.table[h&mask] = uint32(i + 1)
	}
}

// Explore goes through all that can happen, breadth first, until something happens that must
// not. It looks at no more than limit states.
func (m *Machine) Explore(limit int) Result {
	g := &graph{}
	k := m.first(g)
	begin := k
	var r Result
	depthEnd := k + 1
	for range k {
		g.first = append(g.first, 0) // where they lead is not asked
	}
	for ; k < len(g.states); k++ {
		if k == depthEnd {
			r.Depth++
			depthEnd = len(g.states)
		}
		if len(g.states) > limit {
			r.Cut = true
			break
		}
		g.first = append(g.first, uint32(len(g.succ)))
		s := g.states[k]
		if s.bad != none {
			return m.found(g, r, k, s.bad)
		}
		m.next(&s, func(a act, to *state) {
			r.Transitions++
			n, _ := g.find(to, uint32(k))
			if !a.isEnv {
				g.succ = append(g.succ, n)
			}
		})
	}
	if r.Cut {
		r.States = len(g.states)
		return r
	}
	g.first = append(g.first, uint32(len(g.succ)))
	k, bad := m.stuck(g, begin)
	if bad != none && (m.sought == none || m.sought == bad) {
		return m.found(g, r, k, bad)
	}
	r.States = len(g.states)
	return r
}

// first adds the states of First, and returns the number of the last one.
func (m *Machine) first(g *graph) (k int) {
	s := m.start()
	ordered := *m
	ordered.inOrder = true
	add := func() {
		canonical := s
		m.canonical(&canonical)
		n, _ := g.find(&canonical, uint32(max(k-1, 0)))
		k = int(n) + 1
	}
	add()
	for _, who := range m.First {
		from := s
		ordered.next(&from, func(a act, to *state) {
			if !a.isEnv && a.who == int(who-'A') || a.isEnv && a.env == siblingReplaced && who == '-' {
				s = *to
			}
		})
		add()
	}
	return k - 1
}

func (m *Machine) found(g *graph, r Result, k int, bad violation) Result {
	r.States, r.Violation = len(g.states), bad
	r.Trace = m.trace(g, k, bad)
	return r
}

// stuck returns the first state, from begin on, from which no end can be reached in which
// everybody alive has had the lock.
func (m *Machine) stuck(g *graph, begin int) (k int, bad violation) {
	good := make([]bool, len(g.states))
	for k := range g.states {
		if k < begin || m.obstructed(&g.states[k]) {
			good[k] = true
			continue
		}
		moves := false
		for _, n := range g.succ[g.first[k]:g.first[k+1]] {
			moves = moves || int(n) != k
		}
		if moves {
			continue
		}
		if bad := m.ended(&g.states[k]); bad == none {
			good[k] = true
		} else if bad == left {
			return k, bad
		}
	}
	for changed := true; changed; {
		changed = false
		for k := len(g.states) - 1; k >= 0; k-- {
			if good[k] {
				continue
			}
			for _, n := range g.succ[g.first[k]:g.first[k+1]] {
				if good[n] {
					good[k], changed = true, true
					break
				}
			}
		}
	}
	for k := range good {
		if !good[k] {
			return k, stuck
		}
	}
	return 0, none
}

// obstructed reports whether a process that is stopped has the lock, or a lock on the way to it:
// the sibling's counts as long as others look for the sibling there. All others wait for it, as
// they should.
func (m *Machine) obstructed(s *state) bool {
	for i := range m.Roles {
		p := &s.proc[i]
		if p.flags&stopped != 0 && (s.has(s.S, i) || s.has(p.own, i) || s.has(p.dead, i) || s.has(p.mark, i)) {
			return true
		}
	}
	return false
}

// ended looks at a state in which nobody goes on.
func (m *Machine) ended(s *state) violation {
	for i := range m.Roles {
		if p := &s.proc[i]; !steps[p.at].ended && p.flags&stopped == 0 {
			return stuck
		}
	}
	// Where nobody has died, nothing but the sibling is left.
	died, failed := m.DeadFile || m.DeadMarker, s.left[failures] < m.Budget[failures]
	for i := range m.Roles {
		died = died || s.proc[i].at == dead || s.proc[i].flags&stopped != 0
	}
	robbed := s.left[fileReplaced] < m.Budget[fileReplaced]
	if !died && !failed && !robbed && s.P|s.M != 0 {
		return left
	}
	// Nor is a dead one's marker, once somebody has had the lock.
	if m.DeadMarker && s.left == m.Budget && s.M != 0 {
		return left
	}
	// Who comes now must get the lock: what is there is a dead one's, and not locked.
	t := turn{m: m, i: maxProcs - 1, s: *s}
	for _, r := range []ref{s.P, s.M} {
		if r == 0 {
			continue
		}
		f := s.at(r)
		if isDead, _ := t.deadFile(f); !isDead || f.ex|f.sh != 0 {
			return left
		}
	}
	return none
}

// A Trace is one way through a machine, in words.
type Trace struct {
	Machine *Machine
	Ends    violation
	Steps   []Line
}

// A Line is one step of a trace, and what is on disk after it.
type Line struct {
	Who  int // -1: a hand
	Does string
	At   string // the step that Who has come to
	Disk string
}

// trace follows the way to a state from the start. As processes of one role are exchanged on
// the way, it keeps track of who is who.
func (m *Machine) trace(g *graph, k int, ends violation) *Trace {
	var way []uint32
	for n := uint32(k); n != 0; n = g.from[n] {
		way = append(way, n)
	}
	tr := &Trace{Machine: m, Ends: ends}
	s := m.start()
	for len(way) > 0 {
		want := &g.states[way[len(way)-1]]
		way = way[:len(way)-1]
		s = tr.add(s, func(to *state) bool { return m.alike(*to, want, 0) })
	}
	return tr
}

// alike reports whether a state is another one, but for the order of processes of one role,
// from process i on.
func (m *Machine) alike(s state, as *state, i int) bool {
	if i == len(m.Roles) {
		ordered := *m
		ordered.inOrder = true
		ordered.canonical(&s)
		return s == *as
	}
	for k := i; k < len(m.Roles); k++ {
		if m.Roles[k] != m.Roles[i] {
			continue
		}
		if k != i {
			s.swap(i, k)
		}
		if m.alike(s, as, i+1) {
			return true
		}
		if k != i {
			s.swap(i, k)
		}
	}
	return false
}

// add appends the step that leads from s to a state that is wanted, and returns that.
func (tr *Trace) add(s state, wanted func(*state) bool) state {
	m := *tr.Machine
	m.inOrder = true
	found := false
	var next state
	m.next(&s, func(a act, to *state) {
		if found || !wanted(to) {
			return
		}
		found, next = true, *to
		l := Line{Who: a.who, Does: a.does, Disk: m.disk(to)}
		if a.who >= 0 {
			at := steps[to.proc[a.who].at]
			l.At = at.name
			if m.Hooks && !at.hook && at.waits != "" {
				l.At = at.waits
			}
		}
		tr.Steps = append(tr.Steps, l)
	})
	if !found {
		panic("model: the way to a state can't be followed")
	}
	return next
}

// disk says what is on disk, and who has which kernel lock.
func (m *Machine) disk(s *state) string {
	one := func(r ref, what string) string {
		if r == 0 {
			return what + " absent"
		}
		f := s.at(r)
		d, turn := what, ""
		if what != "sibling" {
			switch {
			case f.is&released != 0:
				d += " released"
			case f.is&whole != 0:
				d += " whole"
			default:
				d += " empty"
			}
			if f.maker <= maxProcs {
				d += fmt.Sprintf(" of %c", 'A'+f.maker-1)
			} else {
				d += " of another"
			}
		} else {
			d += " there"
			if at := s.atTurnstile(r); at >= 0 {
				turn = fmt.Sprintf(" with %c at its turnstile", 'A'+at)
			}
		}
		switch {
		case f.ex != 0:
			d += fmt.Sprintf(" locked by %c", 'A'+f.ex-1)
		case f.sh != 0:
			d += " shared by "
			for i := range m.Roles {
				if f.sh&(1<<i) != 0 {
					d += string(rune('A' + i))
				}
			}
		}
		return d + turn
	}
	return strings.Join([]string{one(s.S, "sibling"), one(s.P, "lock file"), one(s.M, "marker")}, ", ")
}

// String is the trace for people, and for the replay: a line for each step.
func (tr *Trace) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n# %s\n", tr.Machine, tr.Ends)
	for _, l := range tr.Steps {
		who := "-"
		if l.Who >= 0 {
			who = string(rune('A' + l.Who))
		}
		fmt.Fprintf(&b, "%s %s\n", who, l.Does)
		if l.At != "" {
			fmt.Fprintf(&b, "    at: %s\n", l.At)
		}
		fmt.Fprintf(&b, "    disk: %s\n", l.Disk)
	}
	return b.String()
}
