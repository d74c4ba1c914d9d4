package model

// maxProcs and maxFiles bound one state. A file that nobody has open, and no name leads to,
// is forgotten.
const (
	maxProcs = 5
	maxFiles = 12
)

// A ref names a file of a state: its number, from 1. 0 is none.
type ref = uint8

// A state is all that there is at one moment. It has only bytes, so two states are the same
// if they are equal.
type state struct {
	proc    [maxProcs]proc
	file    [maxFiles]inode
	S, P, M ref            // where the paths of the sibling, the lock file and the marker lead
	left    [budgets]uint8 // what may still be done to it: see budget
	fence   uint8          // the greatest fence that was given
	unheard uint8          // a dead holder (from 1) of whom no successor has learned yet
	bad     violation      // what the last step has broken
}

// proc is one process.
type proc struct {
	at place // the step that it has come to
	// In fallback mode: the file that it is to remove, the one whose right that is, if it is
	// one, and the right that it has.
	aim, above, right    ref
	sib, own, dead, mark ref // files it has open: the sibling, its lock file, the one it judges, a marker
	// In machines with turnstiles: the sibling whose turnstile it has, and its place in line.
	turn ref
	line uint8
	// The sibling at which it has left a wait behind, at the turnstile if that has the place in
	// line, and else for the lock.
	behind ref
	ahead  uint8 // of Order: those who are to be served before
	flags  flags
}

type flags uint8

const (
	stopped  flags = 1 << iota // by a signal, for ever
	clears                     // it is to look again whether the readers' file can go
	lost                       // its lock file was not its own any more
	knows                      // it has judged who is unheard
	missed                     // the claim that it judged dead had moved
	tidied                     // it has tidied up
	asHolder                   // it died, or was replaced by another program, as a holder
	waited                     // of Order: it was granted the sibling, and has not made its lock file yet
)

// inode is one file.
type inode struct {
	maker uint8 // a process, from 1; byHand
	is    content
	ex    uint8 // the process, from 1, that has its exclusive kernel lock
	sh    uint8 // those that have it shared: bits
	fence uint8 // of a sibling
	right ref   // in fallback mode: the file that gives the right to remove this one
	under ref   // of a claim of the former protocol: the sibling that it names; 255: one that is gone
	tells uint8 // of a sibling: the dead holder, from 1, that it tells of
}

// byHand is the maker of what no process of the model has made: one that has gone.
const byHand = maxProcs + 1

// content is what a file holds.
type content uint8

const (
	whole    content = 1 << iota // a whole claim, which its maker wrote
	released                     // ... that says it was released
	shared                       // ... of readers
	marked                       // the sticky bit: whoever made me locks me; of a sibling: made by holdfast, or written by a holder
	foreign                      // written by a program that knows no kernel lock
)

// A budget is what may happen so many times, at any moment.
type budget uint8

const (
	crashes budget = iota
	heirs          // crashes of a process whose child has its files
	execs          // a process becomes another program: its locks go, its pid stays
	stops
	siblingRemoved
	siblingReplaced
	fileRemoved
	markerGoes
	fileReplaced
	failures // an unlink in a release fails
	cancels
	setBack // the clock is set back
	agains  // a process that is done comes again
	budgets
)

// budgetNames are for people.
var budgetNames = [budgets]string{
	"crash", "crash that leaves the lock file to a child", "exec", "stop", "hand removes the sibling", "hand replaces the sibling",
	"hand removes the lock file", "hand removes the marker", "hand replaces the lock file", "unlink that fails", "cancelled wait", "clock set back", "second turn",
}

func (s *state) at(r ref) *inode { return &s.file[r-1] }

// gone reports whether the maker of a file is dead.
func (s *state) gone(maker uint8) bool {
	if maker == byHand {
		return true
	}
	at := s.proc[maker-1].at
	return at == dead || at == childHas
}

// create makes a file, and returns its number.
func (s *state) create(maker uint8, is content) ref {
	for i := range s.file {
		if s.file[i] == (inode{}) {
			s.file[i] = inode{maker: maker, is: is}
			return ref(i + 1)
		}
	}
	panic("model: maxFiles is too small")
}

// free reports whether process i can have the kernel lock of a file now.
func (s *state) free(r ref, i int, exclusive bool) bool {
	f := s.at(r)
	if f.ex != 0 && f.ex != uint8(i+1) {
		return false
	}
	return !exclusive || f.sh&^(1<<i) == 0
}

// lock gives process i the kernel lock of a file, in place of any that it has of it.
func (s *state) lock(r ref, i int, exclusive bool) {
	s.unlock(r, i)
	if exclusive {
		s.at(r).ex = uint8(i + 1)
	} else {
		s.at(r).sh |= 1 << i
	}
}

func (s *state) unlock(r ref, i int) {
	if r == 0 {
		return
	}
	f := s.at(r)
	if f.ex == uint8(i+1) {
		f.ex = 0
	}
	f.sh &^= 1 << i
}

// has reports whether process i has a kernel lock on a file.
func (s *state) has(r ref, i int) bool {
	return r != 0 && (s.at(r).ex == uint8(i+1) || s.at(r).sh&(1<<i) != 0)
}

// unlockAll drops all kernel locks of process i.
func (s *state) unlockAll(i int) {
	for r := range s.file {
		s.unlock(ref(r+1), i)
	}
}

// loses is the end of all that the kernel keeps for a process.
func (s *state) loses(i int) {
	s.unlockAll(i)
	s.leaveLine(i)
}

// canonical numbers the files anew, in the order in which names and processes lead to them,
// and forgets the others. Of processes with the same role it puts those that have come less
// far first. So what differs only by such numbers is one state.
func (m *Machine) canonical(s *state) {
	for i := 0; m.Hooks && i < len(m.Roles); i++ {
		s.grant(i, !m.Roles[i].reads(), true)
	}
	for i := 1; i < len(m.Roles) && !m.inOrder; i++ {
		for k := i; k > 0 && m.Roles[k] == m.Roles[k-1] && s.proc[k].less(s.proc[k-1]); k-- {
			s.swap(k, k-1)
		}
	}
	var to [maxFiles + 1]ref
	var next ref
	var file [maxFiles]inode
	number := func(r *ref) {
		if *r == 0 {
			return
		}
		if to[*r] == 0 {
			next++
			to[*r] = next
			file[next-1] = s.file[*r-1]
		}
		*r = to[*r]
	}
	number(&s.S)
	number(&s.P)
	number(&s.M)
	for i := range m.Roles {
		p := &s.proc[i]
		number(&p.sib)
		number(&p.own)
		number(&p.dead)
		number(&p.mark)
		number(&p.turn)
		number(&p.behind)
		number(&p.aim)
		number(&p.above)
		number(&p.right)
	}
	for i := range maxFiles { // those that were found lead to more
		if i < int(next) {
			number(&file[i].right)
		}
	}
	for i := range next {
		if u := &file[i].under; *u != 0 && *u != gone && to[*u] != 0 {
			*u = to[*u]
		} else if *u != 0 {
			*u = gone
		}
	}
	s.file = file
}

// gone stands for a file that is not there any more.
const gone ref = 255

// less orders processes by what does not depend on the numbers of files.
func (p proc) less(o proc) bool {
	if p.at != o.at {
		return p.at < o.at
	}
	if p.flags != o.flags {
		return p.flags < o.flags
	}
	return p.line < o.line
}

// swap exchanges two processes of the same role.
func (s *state) swap(i, k int) {
	s.proc[i], s.proc[k] = s.proc[k], s.proc[i]
	number := func(n *uint8) {
		switch *n {
		case uint8(i + 1):
			*n = uint8(k + 1)
		case uint8(k + 1):
			*n = uint8(i + 1)
		}
	}
	for r := range s.file {
		f := &s.file[r]
		number(&f.maker)
		number(&f.ex)
		number(&f.tells)
		swapBits(&f.sh, i, k)
	}
	for p := range s.proc {
		swapBits(&s.proc[p].ahead, i, k)
	}
	number(&s.unheard)
}

func swapBits(of *uint8, i, k int) {
	a, b := *of>>i&1, *of>>k&1
	*of = *of&^(1<<i|1<<k) | a<<k | b<<i
}
