// Package queue answers one question: who is next? It has the line of goroutines of this
// process, the sibling's kernel lock, the turnstile before it, and the threads that are parked
// in the kernel. It knows nothing of lock files: what it must know of one, a caller tells it.
package queue

import (
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/platform"
)

// MaxParked bounds the threads that one Lines has parked in the kernel, waiting for locks.
// Further waiters look from time to time.
const MaxParked = 64

// Lines are the lines of a process: one for each lock that is waited for, and for each mode.
// Several goroutines may use it at once.
type Lines struct {
	mu     sync.Mutex
	lines  map[key]*line
	parked int            // waits in the kernel
	stuck  map[string]int // by lock: waits at its turnstile that overtaking left behind
}

// New returns Lines in which nobody waits.
func New() *Lines { return &Lines{lines: map[key]*line{}, stuck: map[string]int{}} }

// Len returns how many goroutines stand in the line for a lock, in a mode.
func (l *Lines) Len(lock string, mode platform.Mode) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.lines[key{lock, mode}]; q != nil {
		return len(q.tickets)
	}
	return 0
}

// Count returns how many lines there are, and Parked how many threads wait in the kernel.
func (l *Lines) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

func (l *Lines) Parked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parked
}

type key struct {
	lock string
	mode platform.Mode
}

// A line orders the goroutines of this process that wait for one lock, first come, first
// served. The first waits in the kernel, and the others for their turn. So one thread waits,
// whatever the number of goroutines.
//
//	state       has                     goes on when
//	in line     a ticket                it is the first: turn
//	trying      the ticket's turn       the sibling is free, and nobody at the turnstile: has the sibling
//	parked      a thread, first at the turnstile, then (with it) at the sibling
//	                                    the kernel grants it: has the sibling
//	                                    ... or it is free, and nobody at the turnstile takes it:
//	                                    overtakes, and has the sibling
//	            an earlier goroutine may have left the thread: adopted
//	with the    the sibling's lock, and its turnstile until it has tried to make the lock file
//	sibling                             the lock file can be made: has the lock
//	parked      the same, and a thread at the lock file
//	                                    the kernel grants that: judges it
//	looking     the same                from time to time: the holder has no kernel lock
//
// A wait in the kernel can't be called off. When its goroutine goes away, the wait stays until
// it is granted. The next goroutine that is first, and wants the same file, adopts it. If
// there is none, the wait gives back at once what it got.
type line struct {
	of  *Lines
	key key

	// Guarded by of.mu:
	tickets []*ticket
	room    [1]*ticket         // for most lines it is enough
	waits   [atOther + 1]*wait // in the kernel, or come back and not yet taken
}

// Where a thread waits.
const (
	atSibling = iota
	atOther
)

// A ticket is one goroutine's place in a line.
type ticket struct {
	line  *line
	first chan struct{} // closed when its turn has come; nil if that was at once
}

// A wait is a thread in the kernel, for the lock of a file, and before that for its
// turnstile. The file is the thread's until the wait has come.
type wait struct {
	file *platform.File
	mode platform.Mode
	came chan error // holds one
	// giveBack lets go of what nobody is left to take.
	giveBack func(*platform.File, error)

	// Guarded by the mutex of the Lines:
	turnstile turnstile
	left      bool // nobody waits for it now: it must not stand in front of others
	over      bool // nobody waits for it, or ever will
}

// turnstile is how far a wait has come at the turnstile.
type turnstile uint8

const (
	turnstileNone    turnstile = iota // it is not needed, or was left again
	turnstileWaiting                  // it is waited for
	turnstileOurs
)

// enqueue takes the last place in the line for a lock.
func (t *ticket) enqueue(l *Lines, k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.lines[k]
	if q == nil {
		q = &line{of: l, key: k}
		q.tickets = q.room[:0]
		l.lines[k] = q
	}
	t.line, q.tickets = q, append(q.tickets, t)
	if q.tickets[0] != t {
		t.first = make(chan struct{})
	}
}

// leave gives up the place. If it was the first, the next ticket's turn comes. The last to
// leave gives back what has come for nobody.
func (t *ticket) leave() {
	q := t.line
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	place := slices.Index(q.tickets, t)
	if place == 0 { // in a long line, the others do not move up in memory
		q.tickets[0] = nil
		q.tickets = q.tickets[1:]
	} else {
		q.tickets = slices.Delete(q.tickets, place, place+1)
	}
	if len(q.tickets) > 0 {
		if place == 0 {
			close(q.tickets[0].first)
		}
		return
	}
	for at, w := range q.waits {
		if w == nil {
			continue
		}
		select {
		case err := <-w.came:
			q.waits[at] = nil
			w.giveBack(w.file, err)
		default:
			// It waits on, and may be adopted, but must not stand in front of others.
			w.left = true
			if w.turnstile == turnstileWaiting {
				w.file.LeaveTurnstile() // takes back SayWaiting
			} else {
				w.leaveTurnstile()
			}
		}
	}
	q.forget()
}

// forget drops a line in which nobody stands, and nothing is waited for. The caller has
// the mutex, as for leaveTurnstile and abandon.
func (q *line) forget() {
	if len(q.tickets) == 0 && q.waits == [len(q.waits)]*wait{} {
		delete(q.of.lines, q.key)
	}
}

func (w *wait) leaveTurnstile() {
	w.file.LeaveTurnstile() // takes back SayWaiting, too
	w.turnstile = turnstileNone
}

// adopted returns the wait for this very file that an earlier goroutine has left, if there is
// one. It leaves any other wait at the place to itself. Only the first in the line may call
// it, and the methods that follow.
func (q *line) adopted(at int, file *platform.File) *wait {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	w := q.waits[at]
	if w == nil {
		return nil
	}
	if _, err := file.Stat(); err != nil || file.ID() != w.file.ID() {
		q.abandon(at)
		return nil
	}
	w.left = false
	return w
}

// abandon leaves a wait to itself.
func (q *line) abandon(at int) {
	w := q.waits[at]
	q.waits[at] = nil
	w.over = true
	w.leaveTurnstile()
	select {
	case err := <-w.came:
		w.giveBack(w.file, err)
	default:
	}
}

// leaveWait is abandon for callers without the mutex.
func (q *line) leaveWait(at int) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	q.abandon(at)
}

// overtake leaves the wait at the sibling to itself, and remembers that its turnstile is
// stuck until that wait has it.
func (q *line) overtake() {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	w := q.waits[atSibling]
	if w.turnstile == turnstileWaiting {
		q.of.stuck[q.key.lock]++
		q.waits[atSibling] = nil
		w.over = true
	} else {
		q.abandon(atSibling) // it has moved just now
	}
}

// atTurnstile reports whether a wait at the sibling is still on its way to the turnstile.
func (q *line) atTurnstile(w *wait) bool {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	return w.turnstile == turnstileWaiting
}

// isStuck reports whether the turnstile of a lock is known to be stuck: a stopped process is
// at it, and does not take the free lock.
func (l *Lines) isStuck(lock string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stuck[lock] > 0
}

// park begins to wait in the kernel, first for the turnstile of the file if w says so. If too
// many threads are parked already, it returns false, and the file stays the caller's.
func (q *line) park(at int, w *wait) bool {
	if !q.of.count() {
		return false
	}
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	w.came = make(chan error, 1)
	q.waits[at] = w
	go func() {
		err := w.inKernel(q.of, q.key.lock)
		q.of.mu.Lock()
		taken := !w.over && len(q.tickets) > 0
		if taken {
			w.came <- err
		} else if !w.over {
			q.waits[at] = nil
			q.forget()
		}
		q.of.mu.Unlock()
		if !taken {
			w.giveBack(w.file, err)
		}
		q.of.uncount()
	}()
	return true
}

// inKernel waits for the turnstile, if w says so, and then for the lock.
func (w *wait) inKernel(l *Lines, lock string) error {
	l.mu.Lock()
	first := w.turnstile == turnstileWaiting
	l.mu.Unlock()
	if first {
		err := w.file.WaitTurnstile()
		l.mu.Lock()
		wanted := w.turnstile == turnstileWaiting
		if w.turnstile = turnstileOurs; w.left || w.over || err != nil {
			w.leaveTurnstile()
		}
		overtaken := wanted && w.over
		if overtaken {
			if l.stuck[lock]--; l.stuck[lock] == 0 {
				delete(l.stuck, lock)
			}
		}
		l.mu.Unlock()
		if err != nil || overtaken {
			return err
		}
	}
	return w.file.WaitLock(w.mode)
}

// took says that the first in the line has taken what a wait brought.
func (q *line) took(at int) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	q.waits[at] = nil
}

// count counts a thread that is about to wait in the kernel; false if there are too many.
func (l *Lines) count() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parked == MaxParked {
		return false
	}
	l.parked++
	return true
}

func (l *Lines) uncount() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parked--
}

// ParkAlone calls wait in a thread that counts as parked, or otherwise at once if there are
// too many.
func (l *Lines) ParkAlone(wait, otherwise func()) {
	if !l.count() {
		otherwise()
		return
	}
	go func() {
		defer l.uncount()
		wait()
	}()
}
