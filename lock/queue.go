package lock

import (
	"container/list"
	"sync"

	"github.com/holdfast-go/holdfast/platform"
)

// maxParked bounds the threads that this process has parked in the kernel, waiting for
// locks. Further waiters look from time to time.
const maxParked = 64

// The queues of this process, guarded by queuesMu: one for each lock that is waited for,
// and for each mode.
var (
	queuesMu sync.Mutex
	queues   = map[queueKey]*queue{}
	parked   int                // waits in the kernel
	stuck    = map[string]int{} // by lock: waits at its turnstile that were left behind by overtaking
)

type queueKey struct {
	path string
	mode platform.Mode
}

// A queue orders the goroutines of this process that wait for one lock, first come, first
// served. The first waits in the kernel, and the others for their turn. So one thread
// waits, whatever the number of goroutines.
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
// A wait in the kernel can't be called off. When its goroutine goes away, it stays until it
// is granted. The next goroutine that is first, and wants the same file, adopts it. If
// there is none, it gives back at once what it got.
type queue struct {
	key queueKey

	// Guarded by queuesMu:
	line  list.List             // of *ticket
	waits [atLockFile + 1]*wait // in the kernel, or come back and not yet taken
}

// Where a thread waits.
const (
	atSibling = iota
	atLockFile
)

// A ticket is one goroutine's place in a queue.
type ticket struct {
	queue *queue
	at    *list.Element
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

	// Guarded by queuesMu:
	turnstile turnstile
	left      bool // nobody waits for it now: it must not stand in front of others
	over      bool // nobody waits for it, or ever will
}

// turnstile is how far a wait has come at it.
type turnstile uint8

const (
	turnstileNone    turnstile = iota // it is not needed, or was left again
	turnstileWaiting                  // it is waited for
	turnstileOurs
)

// enqueue takes the last place in the queue for a lock.
func (t *ticket) enqueue(path string, mode platform.Mode) {
	key := queueKey{path, mode}
	queuesMu.Lock()
	defer queuesMu.Unlock()
	q := queues[key]
	if q == nil {
		q = &queue{key: key}
		queues[key] = q
	}
	t.queue, t.at = q, q.line.PushBack(t)
	if q.line.Front() != t.at {
		t.first = make(chan struct{})
	}
}

// leave gives up the place. If it was the first, the next one's turn comes. The last one to
// leave gives back what has come for nobody.
func (t *ticket) leave() {
	q := t.queue
	queuesMu.Lock()
	defer queuesMu.Unlock()
	wasFirst := q.line.Front() == t.at
	q.line.Remove(t.at)
	if next := q.line.Front(); next != nil {
		if wasFirst {
			close(next.Value.(*ticket).first)
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

// forget drops a queue in which nobody stands, and nothing is waited for. The caller has
// queuesMu, as for leaveTurnstile and abandon.
func (q *queue) forget() {
	if q.line.Len() == 0 && q.waits == [len(q.waits)]*wait{} {
		delete(queues, q.key)
	}
}

func (w *wait) leaveTurnstile() {
	w.file.LeaveTurnstile() // takes back SayWaiting, too
	w.turnstile = turnstileNone
}

// adopted returns the wait for this very file that an earlier goroutine has left, if there
// is one. Any other wait at the place is left to itself. Only the first in the queue may
// call it, and the methods that follow.
func (q *queue) adopted(at int, file *platform.File) *wait {
	queuesMu.Lock()
	defer queuesMu.Unlock()
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
func (q *queue) abandon(at int) {
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

// leaveWait is abandon for callers without queuesMu.
func (q *queue) leaveWait(at int) {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	q.abandon(at)
}

// overtake leaves the wait at the sibling to itself, and remembers that its turnstile is
// stuck until that wait has it.
func (q *queue) overtake() {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	w := q.waits[atSibling]
	if w.turnstile == turnstileWaiting {
		stuck[q.key.path]++
		q.waits[atSibling] = nil
		w.over = true
	} else {
		q.abandon(atSibling) // it has moved just now
	}
}

// atTurnstile reports whether a wait at the sibling is still on its way to the turnstile.
func (q *queue) atTurnstile(w *wait) bool {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	return w.turnstile == turnstileWaiting
}

// isStuck reports whether the turnstile of a lock is known to be stuck: somebody who was
// stopped is at it, and does not take the free lock.
func isStuck(path string) bool {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	return stuck[path] > 0
}

// park begins to wait in the kernel, first for the turnstile of the file if w says so. It
// returns false, and the file stays the caller's, if too many threads are parked already.
func (q *queue) park(at int, w *wait) bool {
	if !countParked() {
		return false
	}
	queuesMu.Lock()
	defer queuesMu.Unlock()
	w.came = make(chan error, 1)
	q.waits[at] = w
	go func() {
		err := w.inKernel(q.key.path)
		queuesMu.Lock()
		taken := !w.over && q.line.Len() > 0
		if taken {
			w.came <- err
		} else if !w.over {
			q.waits[at] = nil
			q.forget()
		}
		queuesMu.Unlock()
		if !taken {
			w.giveBack(w.file, err)
		}
		uncountParked()
	}()
	return true
}

// inKernel waits for the turnstile, if w says so, and then for the lock.
func (w *wait) inKernel(path string) error {
	queuesMu.Lock()
	first := w.turnstile == turnstileWaiting
	queuesMu.Unlock()
	if first {
		err := w.file.WaitTurnstile()
		queuesMu.Lock()
		wanted := w.turnstile == turnstileWaiting
		if w.turnstile = turnstileOurs; w.left || w.over || err != nil {
			w.leaveTurnstile()
		}
		overtaken := wanted && w.over
		if overtaken {
			if stuck[path]--; stuck[path] == 0 {
				delete(stuck, path)
			}
		}
		queuesMu.Unlock()
		if err != nil || overtaken {
			return err
		}
	}
	return w.file.WaitLock(w.mode)
}

// took says that the first in the queue has taken what a wait brought.
func (q *queue) took(at int) {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	q.waits[at] = nil
}

// countParked counts a thread that is about to wait in the kernel; false if there are too
// many.
func countParked() bool {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	if parked == maxParked {
		return false
	}
	parked++
	return true
}

func uncountParked() {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	parked--
}

// parkAlone calls wait in a thread that counts as parked, or otherwise at once if there
// are too many.
func parkAlone(wait, otherwise func()) {
	if !countParked() {
		otherwise()
		return
	}
	go func() {
		defer uncountParked()
		wait()
	}()
}
