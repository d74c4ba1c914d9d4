package model

import "fmt"

// A Role is what a process does: once, unless the case lets it come again.
type Role byte

const (
	Writer       Role = 'w' // Acquire, hold, Release
	Reader       Role = 'r' // AcquireShared
	TryWriter    Role = 't' // TryAcquire
	TryReader    Role = 'u' // TryAcquireShared
	Inspector    Role = 'i' // Inspect
	OnlyExcl     Role = 'F' // a program that knows O_EXCL alone, and steals from nobody
	Thief        Role = 'K' // one that knows O_EXCL, and removes the file of a dead pid
	OnlyMarker   Role = 'E' // one that does so under the marker
	Flock        Role = 'L' // flock(1) on the sibling
	FormerWriter Role = 'W' // of the former protocol: see former.go
	FormerReader Role = 'R'
	Fallback     Role = 'b' // Acquire in fallback mode: see fallback.go
)

var roleNames = map[Role]string{
	Writer: "writer", Reader: "reader", TryWriter: "try", TryReader: "try shared", Inspector: "inspector",
	OnlyExcl: "O_EXCL only", Thief: "thief by pid", OnlyMarker: "marker only", Flock: "flock(1)",
	FormerWriter: "writer, former protocol", FormerReader: "reader, former protocol", Fallback: "writer in fallback mode",
}

func (r Role) reads() bool { return r == Reader || r == TryReader || r == FormerReader }
func (r Role) tries() bool { return r == TryWriter || r == TryReader }

// participant reports whether a process keeps the rules. The others are in nobody's care.
func (r Role) participant() bool { return r != OnlyExcl && r != Thief && r != OnlyMarker && r != Flock }

// A Machine is one case: who takes part, and what may happen to them.
type Machine struct {
	Name   string
	Part   part
	Roles  []Role
	Budget [budgets]uint8

	// Beside says that others who hold, and keep no rules, count, too.
	Beside bool

	// Turnstile has those who wait pass the turnstile. Without it the sibling can be had in any
	// order, which is more than there can be with it: save that nobody waits for it, or overtakes
	// a process that is stopped there.
	Turnstile bool
	Order     bool // nobody may be passed by who comes later: see comes
	Tidy      bool // the sibling goes, too, when nobody needs it; who gave up does not look whether it can
	Fence     bool // each writer asks for the fence
	Slow      bool // at the turnstile not only a process that is stopped is overtaken, but any
	// DeadFile and DeadMarker are left by a holder, and a reclaimer, who died before.
	DeadFile, DeadMarker bool
	// Gaps lets others act between a look and the removal that follows it, two adjacent
	// system calls. That is the only gap that is left to hands and other programs.
	Gaps bool
	// Hooks lets processes pause only where the code has a hook, so that what they do can be
	// replayed.
	Hooks bool

	// First is who moves first, before all is tried; - is the hand that replaces the sibling.
	First string

	// Excused is what is nobody's fault in this case: a hand has removed both files, say.
	Excused violation

	without guards    // taken out
	sought  violation // nothing else counts; none: all
	inOrder bool      // processes are not exchanged
}

// guards is a set.
type guards uint64

func (m *Machine) has(g guard) bool { return m.without&(1<<g) == 0 }

// A violation is what must never be.
type violation uint8

const (
	none violation = iota
	twoHolders
	removesLiving
	removesMarker
	removesSibling
	fenceBack
	deathUnheard
	passed
	stuck
	left
)

var violationNames = [...]string{
	none: "no violation", twoHolders: "two holders", removesLiving: "a participant removes a living one's lock file",
	removesMarker: "a participant removes a living one's marker", removesSibling: "a sibling that is in use is tidied away",
	fenceBack: "the fence did not grow", deathUnheard: "the next holder does not learn of a death",
	passed: "somebody who waits is passed by who came later",
	stuck:  "somebody alive can't get the lock any more", left: "all have ended, and the lock can't be had",
}

func (v violation) String() string { return violationNames[v] }

// A place is where a process stands: the last step that it has taken. steps has them all.
type place uint8

// A turn is one process that is to take its next step. A step is one act: at most one system
// call that others can notice.
type turn struct {
	m    *Machine
	i    int
	was  *proc // as it was paused, in a machine that pauses at hooks only
	from *state
	s    state // what comes of it
	then func(t *turn, does string)
}

func (t *turn) me() *proc     { return &t.s.proc[t.i] }
func (t *turn) role() Role    { return t.m.Roles[t.i] }
func (t *turn) number() uint8 { return uint8(t.i + 1) }

// reach ends one way in which the step can go. The next one starts from the beginning.
func (t *turn) reach(at place, does string) {
	t.me().at = at
	t.then(t, does)
	t.s = *t.from
}

// breaks notes a violation. The first one counts.
func (t *turn) breaks(v violation) { t.m.breaks(&t.s, v) }

func (m *Machine) breaks(s *state, v violation) {
	if s.bad == none && v != m.Excused && (m.sought == none || v == m.sought) {
		s.bad = v
	}
}

// An act is one step of a state: who takes it (-1: nobody of them), and what it does.
type act struct {
	who   int
	does  string
	env   budget // what befalls them, if isEnv
	isEnv bool
}

// next calls yield with all that can come next.
func (m *Machine) next(from *state, yield func(a act, to *state)) {
	gap, leased := false, false
	for i := range m.Roles {
		if steps[from.proc[i].at].gap && from.proc[i].flags&stopped == 0 {
			gap = true
		}
		leased = leased || steps[from.proc[i].at].leased
	}
	for i := range m.Roles {
		p := from.proc[i]
		if p.flags&stopped != 0 || steps[p.at].do == nil {
			continue
		}
		if (gap || leased) && !m.Gaps && !m.Roles[i].participant() {
			continue
		}
		m.move(from, i, func(does string, to *state) { yield(act{who: i, does: does}, to) })
	}
	m.threads(from, func(i int, to *state) {
		yield(act{who: i, does: "is granted the wait that it has left behind, and lets go"}, to)
	})
	if !gap || m.Gaps {
		m.hands(from, func(b budget, does string, to *state) { yield(act{who: -1, does: does, env: b, isEnv: true}, to) })
	}
	m.fates(from, func(i int, b budget, does string, to *state) { yield(act{who: i, does: does, env: b, isEnv: true}, to) })
}

// move calls yield with what comes of the next step of process i; in a machine that pauses
// at hooks only, of all up to the next hook.
func (m *Machine) move(from *state, i int, yield func(does string, to *state)) {
	m.moveOn(&from.proc[i], from, i, yield)
}

// moveOn is move for a process that has gone on already, since it was paused.
func (m *Machine) moveOn(was *proc, from *state, i int, yield func(does string, to *state)) {
	t := turn{m: m, i: i, was: was, from: from, s: *from}
	t.then = func(t *turn, does string) {
		to := t.s
		at := to.proc[i].at
		if m.Hooks && !steps[at].hook && steps[at].do != nil && to.bad == none {
			went := false
			m.moveOn(was, &to, i, func(more string, to *state) {
				went = true
				yield(does+"; "+more, to)
			})
			if went {
				return
			}
			// It waits here, or has come to a place where it may wait. Who waits already does not
			// show that it waits elsewhere at the same sibling now.
			if steps[at].waits == "" || t.hasWaited() {
				return
			}
		}
		m.canonical(&to)
		m.check(&to)
		yield(does, &to)
	}
	steps[from.proc[i].at].do(&t)
}

// threads are those of waits that were left behind. (Where processes pause at hooks only, they
// are gone at once: see canonical.)
func (m *Machine) threads(from *state, yield func(i int, to *state)) {
	for i, r := range m.Roles {
		to := *from
		if !m.Hooks && to.grant(i, !r.reads(), false) {
			m.canonical(&to)
			m.check(&to)
			yield(i, &to)
		}
	}
}

// fates are what befalls a process: it dies, is stopped, or becomes another program.
func (m *Machine) fates(from *state, yield func(i int, b budget, does string, to *state)) {
	for i := range m.Roles {
		p := from.proc[i]
		ended := steps[p.at].ended
		if !ended && m.may(from, crashes) {
			m.befalls(from, crashes, func(s *state) {
				s.loses(i)
				s.proc[i] = proc{at: dead}
			}, func(to *state) { yield(i, crashes, "is killed", to) })
		}
		if !ended && m.may(from, heirs) && from.has(p.own, i) {
			m.befalls(from, heirs, func(s *state) {
				f := s.proc[i].flags & asHolder
				if p.holds() {
					f = asHolder
				}
				s.loses(i)
				s.lock(p.own, i, p.own != 0 && from.at(p.own).ex != 0)
				s.proc[i] = proc{at: childHas, own: p.own, flags: f}
			}, func(to *state) { yield(i, heirs, "is killed, and a child has its lock file", to) })
		}
		if p.holds() && !m.Roles[i].reads() && m.Roles[i].participant() && m.may(from, execs) {
			m.befalls(from, execs, func(s *state) {
				s.loses(i)
				s.proc[i] = proc{at: another, own: p.own, flags: asHolder}
			}, func(to *state) { yield(i, execs, "becomes another program by exec, which closes its files", to) })
		}
		if !ended && p.flags&stopped == 0 && p.at != out && m.may(from, stops) {
			m.befalls(from, stops, func(s *state) {
				s.leaveLine(i) // a signal ends the system call, which begins again after it
				s.proc[i].flags |= stopped
			},
				func(to *state) { yield(i, stops, "is stopped, and does not go on", to) })
		}
		if (p.at == done || p.at == failed) && m.may(from, agains) {
			m.befalls(from, agains, func(s *state) { s.proc[i] = p.after() },
				func(to *state) { yield(i, agains, "comes again", to) })
		}
	}
}

// hands are what somebody does who has no part in it.
func (m *Machine) hands(from *state, yield func(b budget, does string, to *state)) {
	do := func(b budget, can bool, does string, change func(s *state)) {
		if can && m.may(from, b) {
			m.befalls(from, b, change, func(to *state) { yield(b, does, to) })
		}
	}
	do(siblingRemoved, from.S != 0, "a hand removes the sibling", func(s *state) { s.S = 0 })
	do(siblingReplaced, from.S != 0, "a hand renames another file over the sibling", func(s *state) { s.S = s.create(byHand, 0) })
	do(fileRemoved, from.P != 0, "a hand removes the lock file", func(s *state) { s.P = 0 })
	do(markerGoes, from.M != 0, "a hand removes the marker", func(s *state) { s.M = 0 })
	do(fileReplaced, from.P != 0, "a hand renames a dead program's claim over the lock file", func(s *state) {
		s.P = s.create(byHand, whole|foreign)
	})
}

func (m *Machine) may(s *state, b budget) bool { return s.left[b] > 0 }

func (m *Machine) befalls(from *state, b budget, change func(s *state), yield func(to *state)) {
	to := *from
	to.left[b]--
	change(&to)
	m.canonical(&to)
	m.check(&to)
	yield(&to)
}

// starts is where a process begins; most begin at out.
var starts = map[Role]place{
	Inspector: inspects, OnlyExcl: exclOut, Thief: exclOut, OnlyMarker: exclOut, Flock: flockOut,
	FormerWriter: formerOut, FormerReader: formerOut, Fallback: fallbackOut,
}

// start is the state in which nobody has come yet.
func (m *Machine) start() (s state) {
	for i, r := range m.Roles {
		s.proc[i].at = starts[r]
	}
	if m.DeadFile {
		s.P = s.create(byHand, whole|marked)
	}
	if m.DeadMarker {
		s.M = s.create(byHand, whole|marked)
	}
	s.left = m.Budget
	return s
}

// check looks for what must not be in a state.
func (m *Machine) check(s *state) {
	if s.bad != none {
		return
	}
	holders, writers := 0, 0 // participants, and others as far as nothing was done to the files
	for i := range m.Roles {
		p := &s.proc[i]
		if !p.holds() || !m.Roles[i].participant() && !m.Beside {
			continue
		}
		holders++
		if !m.Roles[i].reads() {
			writers++
		}
	}
	if writers > 0 && holders > 1 {
		m.breaks(s, twoHolders)
	}
}

// holds reports whether a process has the lock.
func (p *proc) holds() bool {
	return steps[p.at].holds || steps[p.at].met && p.own != 0 || p.flags&asHolder != 0
}

// isRelied reports whether somebody alive, other than process i, counts on a file: it has
// found it at its path with its lock, or holds by it.
func (m *Machine) isRelied(s *state, r ref, i int) bool {
	for k := range m.Roles {
		p := &s.proc[k]
		if k != i && p.own == r && (steps[p.at].relies || p.holds()) {
			return true
		}
	}
	return false
}

// removeFile is the unlink of whatever is at the path of the lock file.
func (t *turn) removeFile() {
	if r := t.s.P; r != 0 && t.role().participant() && t.m.isRelied(&t.s, r, t.i) {
		t.breaks(removesLiving)
	}
	t.s.P = 0
}

// removeMarker is the unlink of whatever is at the path of the marker.
func (t *turn) removeMarker() {
	for k := range t.m.Roles {
		p := &t.s.proc[k]
		if k != t.i && t.s.M != 0 && p.mark == t.s.M && steps[p.at].hasMarker && t.role().participant() {
			t.breaks(removesMarker)
		}
	}
	t.s.M = 0
}

func (m *Machine) rolesText() string {
	b := make([]byte, len(m.Roles))
	for i, r := range m.Roles {
		b[i] = byte(r)
	}
	return string(b)
}

// String describes the case.
func (m *Machine) String() string {
	s := halves[m.Part].name + m.Name + ":"
	for i, r := range m.Roles {
		s += fmt.Sprintf(" %c %s", 'A'+i, roleNames[r])
		if i < len(m.Roles)-1 {
			s += ","
		}
	}
	sep := "; at any moment "
	for b, n := range m.Budget {
		if n > 0 {
			s += fmt.Sprintf("%s%d %s", sep, n, budgetNames[b])
			sep = ", "
		}
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{m.Turnstile, "who waits passes the turnstile"}, {m.Order, "in order"}, {m.Tidy, "siblings are tidied up"}, {m.Fence, "writers ask for the fence"}, {m.Slow, "who is slow at the turnstile is overtaken"},
		{m.DeadFile, "a dead holder has left the lock file"}, {m.DeadMarker, "a dead reclaimer has left the marker"}, {m.Gaps, "others may act between a look and a removal"}} {
		if f.on {
			s += "; " + f.name
		}
	}
	return s
}
