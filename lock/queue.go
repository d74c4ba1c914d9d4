package lock

import (
	"container/list"
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/platform"
)

// maxParked bounds the threads that this process has parked in the kernel,
// waiting for locks. What waits beyond it looks again from time to time.
const maxParked = 64

// Waiting in this process, guarded by queuesMu: one queue for each lock that is
// waited for, and for each way of having it.
var (
	queuesMu sync.Mutex
	queues   = map[queueKey]*queue{}
	parked   int // waits in the kernel
)

type queueKey struct {
	path string
	mode platform.Mode
}

// A queue orders the goroutines of this process that wait for one lock, first
// come, first served. The first waits for the kernel lock, in the kernel; the
// others wait for their turn. So one thread waits, whatever the number of
// goroutines.
type queue struct {
	key queueKey

	// Guarded by queuesMu:
	line list.List   // of *ticket
	wait *kernelWait // in the kernel, or come back and not yet taken
}

// A ticket is one goroutine's place in a queue.
type ticket struct {
	queue *queue
	at    *list.Element
	first chan struct{} // closed when its turn has come
}

// A kernelWait is a wait in the kernel, which can't be called off. When the
// goroutine that began it goes away it stays, and whoever is first then adopts it.
// If nobody is left when the lock is granted, it gives the lock back at once. So that
// a writer who has gone does not keep readers from readers, an exclusive one then
// waits on without the turnstile.
type kernelWait struct {
	came chan kernelPlace // holds one

	// Guarded by queuesMu:
	turnstile *platform.Turnstile // nil before it is had, and after it was opened
	abandoned bool
}

// kernelPlace is what a wait in the kernel brings.
type kernelPlace struct {
	turnstile *platform.Turnstile
	lock      *platform.KernelLock
	err       error
}

// giveBack lets go of what nobody is left to take.
func (p kernelPlace) giveBack(key queueKey) {
	if p.lock != nil {
		if key.mode == platform.Exclusive {
			clearReaders(key.path, p.lock)
		}
		_ = p.lock.Unlock()
	}
	p.turnstile.Open()
}

// enqueue gives the caller the last place in the queue for a lock.
func enqueue(path string, mode platform.Mode) *ticket {
	key := queueKey{path, mode}
	queuesMu.Lock()
	defer queuesMu.Unlock()
	q := queues[key]
	if q == nil {
		q = &queue{key: key}
		queues[key] = q
	}
	t := &ticket{queue: q, first: make(chan struct{})}
	t.at = q.line.PushBack(t)
	if q.line.Front() == t.at {
		close(t.first)
	}
	return t
}

// leave gives up the place, the first one included; then it is the next one's turn.
// The last one to leave gives back what has come for nobody.
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
	if q.wait != nil {
		select {
		case place := <-q.wait.came:
			q.wait = nil
			place.giveBack(q.key)
		default:
			if q.key.mode == platform.Exclusive { // readers need it, to be together
				q.wait.abandoned = true
				q.wait.turnstile.Open()
				q.wait.turnstile = nil
			}
			return // it waits on, and may be adopted; see park
		}
	}
	delete(queues, q.key)
}

// adopted returns the wait that somebody before has left, if any. Only the first
// in the queue may call it, and the methods that follow.
func (q *queue) adopted() *kernelWait {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	if q.wait != nil {
		q.wait.abandoned = false
	}
	return q.wait
}

// park begins to wait in the kernel with the turnstile, if the caller has it. It
// returns nil if too many threads are parked already.
func (q *queue) park(sibling string, queued bool, turnstile *platform.Turnstile) *kernelWait {
	if !countParked() {
		return nil
	}
	queuesMu.Lock()
	defer queuesMu.Unlock()
	w := &kernelWait{came: make(chan kernelPlace, 1), turnstile: turnstile}
	q.wait = w
	go func() {
		place := w.inKernel(sibling, q.key.mode, queued, turnstile)
		queuesMu.Lock()
		defer queuesMu.Unlock()
		parked--
		place.turnstile = w.turnstile
		if q.line.Len() == 0 {
			q.wait = nil
			delete(queues, q.key)
			place.giveBack(q.key)
			return
		}
		w.came <- place
	}()
	return w
}

// countParked counts a thread that is about to wait in the kernel, unless there are
// too many.
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

// inKernel waits for the turnstile, unless there is none or the caller brought it, and
// then for the lock.
func (w *kernelWait) inKernel(sibling string, mode platform.Mode, queued bool, turnstile *platform.Turnstile) (p kernelPlace) {
	if turnstile == nil && queued {
		var err error
		if turnstile, err = platform.WaitTurnstile(sibling); err != nil {
			return kernelPlace{err: err}
		}
		queuesMu.Lock()
		if w.abandoned {
			turnstile.Open()
		} else {
			w.turnstile = turnstile
		}
		queuesMu.Unlock()
	}
	if turnstile == nil {
		p.lock, p.err = platform.WaitKernelLock(sibling, mode)
	} else {
		p.lock, p.err = turnstile.WaitKernelLock(mode)
	}
	return p
}

// take waits for what w brings. When ctx ends first, w stays for the next one.
func (q *queue) take(ctx context.Context, w *kernelWait) (kernelPlace, error) {
	select {
	case place := <-w.came:
		queuesMu.Lock()
		defer queuesMu.Unlock()
		q.wait = nil
		return place, nil
	case <-ctx.Done():
		return kernelPlace{}, ctx.Err()
	}
}
