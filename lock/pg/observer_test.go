package pg_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
)

// recorder keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	events []lock.Event
}

func (r *recorder) Observe(e lock.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) kinds() (kinds []lock.EventKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (r *recorder) count(kind lock.EventKind) (n int) {
	for _, k := range r.kinds() {
		if k == kind {
			n++
		}
	}
	return n
}

func TestObserver(t *testing.T) {
	r, k := &recorder{}, key()
	l := open(t, pg.Options{Observe: r.Observe, Cmd: "observed"})
	first := acquire(t, open(t, pg.Options{Cmd: "first"}), k)
	came := begin(l, limited(t), k)
	eventually(t, "the wait is told", func() bool { return r.count(lock.EventWaiting) == 1 })
	check(t, first.Release())
	held := await(t, "the lock", came).mustHave(t)
	check(t, held.Release())
	check(t, held.Release())
	want := []lock.EventKind{lock.EventWaiting, lock.EventAcquired, lock.EventReleased}
	if got := r.kinds(); !slices.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	waiting := r.events[0]
	if waiting.Info == nil || waiting.Info.PID != first.Info().PID || waiting.Evidence != pg.EvidenceSessionHolds ||
		waiting.Path != k.String() || waiting.Cmd != "observed" {
		t.Errorf("event of the wait: %+v, with holder %+v", waiting, waiting.Info)
	}
}

// TestObserverOfLateQuestion: a wait that the server does not know of yet, when it is first
// looked for, is told all the same, and not only when it is over.
func TestObserverOfLateQuestion(t *testing.T) {
	r, k, p := &recorder{}, key(), newProxy(t, server.Conn())
	first := acquire(t, open(t, pg.Options{}), k)
	l := open(t, pg.Options{Conn: p.through(server.Conn()), Observe: r.Observe})
	l.SetSilence(10 * patience) // nothing but the question is said
	asks := acquire(t, l, key())
	ctx, cancel := context.WithCancel(asks.Context(limited(t)))
	gaveUp := begin(l, ctx, k)
	eventually(t, "a wait is told", func() bool { return r.count(lock.EventWaiting) == 1 }) // to look again takes one answer
	cancel()
	wantLocked(t, await(t, "the end of the wait", gaveUp).err)

	p.holdBack(asks.Info().PID)
	came := begin(l, asks.Context(limited(t)), k)
	eventually(t, "the wait is told", func() bool { return r.count(lock.EventWaiting) == 2 })
	check(t, first.Release())
	check(t, await(t, "the lock", came).mustHave(t).Release())
	check(t, asks.Release())
}

// atAcquired does something when the lock has come.
func atAcquired(do func()) func(lock.Event) {
	return func(e lock.Event) {
		if e.Kind == lock.EventAcquired {
			do()
		}
	}
}

// TestCancelAsItComes: a lock that comes when its caller has given up is let go of.
func TestCancelAsItComes(t *testing.T) {
	ctx, cancel := context.WithCancel(limited(t))
	k := key()
	_, err := open(t, pg.Options{Observe: atAcquired(cancel)}).Acquire(ctx, k)
	wantIs(t, err, context.Canceled)
	check(t, acquire(t, open(t, pg.Options{}), k).Release())
}

// TestObserverOfWaitBegunAgain: a wait that is broken off, as the outer hold is released, is
// the same wait when it goes on elsewhere.
func TestObserverOfWaitBegunAgain(t *testing.T) {
	r, hot := &recorder{}, key()
	l := open(t, pg.Options{Observe: r.Observe})
	elsewhere := acquire(t, open(t, pg.Options{}), hot)
	outer := acquire(t, l, key())
	came := begin(l, outer.Context(limited(t)), hot)
	eventually(t, "the wait is told", func() bool { return r.count(lock.EventWaiting) == 1 })
	check(t, outer.Release())
	untilWaiting(t, l, hot)
	check(t, elsewhere.Release())
	check(t, await(t, "the lock", came).mustHave(t).Release())
	if n := r.count(lock.EventWaiting); n != 1 {
		t.Errorf("one wait is told %d times", n)
	}
	wantIdle(t, l)
}

// TestObserverOfLoss: a loss is told once, whoever finds out, and is no release.
func TestObserverOfLoss(t *testing.T) {
	for name, find := range map[string]func(*pg.Hold){
		"watcher": func(h *pg.Hold) { <-h.Lost() },
		"release": func(*pg.Hold) {},
	} {
		t.Run(name, func(t *testing.T) {
			r, k := &recorder{}, key()
			l := open(t, pg.Options{Observe: r.Observe})
			held := acquire(t, l, k)
			terminate(t, server.Conn(), held)
			find(held)
			for range 3 {
				_ = held.Release()
			}
			want := []lock.EventKind{lock.EventAcquired, lock.EventLost}
			if got := r.kinds(); !slices.Equal(got, want) {
				t.Errorf("events %v, want %v", got, want)
			}
			wantIdle(t, l)
		})
	}
}

// TestLossRacesRelease: a hold was released, or lost, and never both or neither.
func TestLossRacesRelease(t *testing.T) {
	admin := raw(t, server.Conn())
	r := &recorder{}
	l := open(t, pg.Options{Observe: r.Observe})
	lost := 0
	for range 100 {
		held := acquire(t, l, key())
		terminated := make(chan error, 1)
		go func() {
			time.Sleep(rand.N(8 * time.Millisecond))
			_, err := admin.Exec(context.Background(), "SELECT pg_terminate_backend($1)", held.Info().PID)
			terminated <- err
		}()
		time.Sleep(rand.N(8 * time.Millisecond)) // any interleaving will do
		switch err := held.Release(); {
		case err == nil:
			notYet(t, held.Lost(), "lost, and Release does not say so")
		case errors.Is(err, lock.ErrLost):
			await(t, "Lost", held.Lost())
			lost++
		default:
			t.Error(err)
		}
		check(t, await(t, "the end of the session", terminated))
	}
	if got := r.count(lock.EventLost); got != lost || r.count(lock.EventReleased) != 100-lost {
		t.Errorf("%d losses and %d releases are told, want %d of 100", got, r.count(lock.EventReleased), lost)
	}
	t.Logf("%d of 100 were lost", lost)
	wantIdle(t, l)
}

// outcome is what came of an acquisition.
type outcome struct {
	held lock.Hold
	err  error
}

func (o outcome) mustHave(t testing.TB) lock.Hold {
	t.Helper()
	check(t, o.err)
	t.Cleanup(func() { _ = o.held.Release() })
	return o.held
}

// begin acquires in another goroutine.
func begin(l lock.Locker, ctx context.Context, k lock.Key) <-chan outcome {
	came := make(chan outcome, 1)
	go func() {
		held, err := l.Acquire(ctx, k)
		came <- outcome{held, err}
	}()
	return came
}

// untilWaiting returns when the server has somebody waiting for a lock.
func untilWaiting(t testing.TB, l lock.Locker, k lock.Key) {
	t.Helper()
	eventually(t, "somebody waits for "+k.String(), func() bool { return len(waiting(t, l, k)) > 0 })
}

func waiting(t testing.TB, l lock.Locker, k lock.Key) []lock.Process {
	t.Helper()
	s := must(l.Inspect(limited(t), k))(t)
	return s.Waiters
}
