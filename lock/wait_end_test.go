package lock_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestAcquire_CancelBeatsAcquire: a context that ends at any step on the way in leaves no
// lock. A file that is not yet there is not made any more.
func TestAcquire_CancelBeatsAcquire(t *testing.T) { // guards: S19
	f := queued(t)
	for name, acquire := range acquirers {
		for _, at := range lock.AcquireSteps {
			ctx, cancel := context.WithCancel(t.Context())
			var steps []string
			held, err := acquire(f.Park(func(step string) {
				steps = append(steps, step)
				if step == at {
					cancel()
				}
			}), ctx)
			cancel()
			if held != nil || !errors.Is(err, context.Canceled) {
				t.Fatalf("%s, %s: got %v, %v", name, at, held, err)
			}
			if at == lock.StepSiblingLocked && slices.Contains(steps, lock.StepCreated) {
				t.Errorf("%s, %s: a lock file was made: %s", name, at, steps)
			}
			wantFree(t, f.Path)
		}
	}
}

// TestAcquire_ContextDone: a context that is done already touches nothing.
func TestAcquire_ContextDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, acquire := range acquirers {
		f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
		if held, err := acquire(f, ctx); held != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, %v", name, held, err)
		}
		equal(t, names(t, filepath.Dir(f.Path)), "", name, "left behind")
	}
}

// TestAcquireWithin: every limit that is not negative ends, and says who has it.
func TestAcquireWithin(t *testing.T) { // guards: W6
	f := queued(t)
	held := tryHold(t, f)
	for _, limit := range []time.Duration{1, 500 * time.Microsecond, 20 * time.Millisecond} {
		promptly(t, limit.String(), func() {
			_, err := f.AcquireWithin(t.Context(), limit)
			if !errors.Is(err, lock.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: %v; want a timeout", limit, err)
			}
			var locked *lock.LockedError
			if !errors.As(err, &locked) {
				t.Errorf("%v: %v is no *LockedError", limit, err)
			} else if locked.Info == nil || locked.Info.Nonce != held.Info().Nonce || locked.Waited <= 0 {
				t.Errorf("%v: error is %+v", limit, locked)
			}
		})
	}
	parkedIs(t, 1) // abandoned; the one of the last limit, at most
	promptly(t, "trying once", func() {
		_, err := f.AcquireWithin(t.Context(), 0)
		that(t, !errors.Is(err, lock.ErrTimeout) && asLocked(t, err).Waited == 0, "0: %v; want no wait", err)
	})
	waits := begin(t, f, false, func() (*lock.FileHold, error) { return f.AcquireWithin(t.Context(), -1) })
	letGo(t, held)
	letGo(t, getHeld(t, waits))
	wantFree(t, f.Path)
	if held, err := f.AcquireWithin(t.Context(), 0); err != nil {
		t.Errorf("0 on a free lock: %v", err)
	} else {
		letGo(t, held)
	}
}

// lasting gives what is told of a wait that lasts.
func lasting(tell func(lock.Event)) func(lock.Event) {
	return func(e lock.Event) {
		if e.Kind == lock.EventWaiting && e.Duration > 0 {
			tell(e)
		}
	}
}

// TestObserve_Waiting: of a wait that lasts Observe is told once more, with who is in the way by
// then, and not too early.
func TestObserve_Waiting(t *testing.T) { // guards: W10
	const after = 20 * time.Millisecond
	f := queued(t)
	for name, hold := range map[string]func() (pid int, letGo func()){
		"kernel lock": func() (int, func()) {
			other := start(t, "member", f.Path)
			other.Do("acquire", "held")
			return other.Cmd.Process.Pid, func() { other.Do("release", "released") }
		},
		"bare claim": func() (int, func()) { return putBareClaim(t, f.Path) },
	} {
		t.Run(name, func(t *testing.T) {
			pid, letGoOther := hold()
			calls := make(chan lock.Event, 10)
			notified := f.WithNoticeAfter(after)
			notified.Observe = lasting(func(e lock.Event) { calls <- e })
			begun := time.Now()
			came := beginAcquire(t, t.Context(), notified)
			l := <-calls
			if since := time.Since(begun); since < after || l.Duration < after {
				t.Errorf("called after %v, with %v; want %v", since, l.Duration, after)
			}
			that(t, l.Info != nil && l.Info.PID == pid && l.Path == f.Path, "called with %v; the holder is pid %d", l, pid)
			letGoOther()
			letGo(t, getHeld(t, came))
			if n := len(calls); n != 0 {
				t.Errorf("called %d times more", n)
			}
		})
	}
}

// TestObserve_NotItself: who has just got the lock is not told that they are in their own
// way.
func TestObserve_NotItself(t *testing.T) { // guards: W10
	f := queued(t)
	other := tryHold(t, f)
	told := make(chan lock.Event, 1)
	f = f.Park(func(step string) {
		if step == "claim written" {
			select { // the callback's time has come, unless it has nothing to tell
			case l := <-told:
				told <- l
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	// It comes when the claim is there, on any machine that gets there within this time.
	f = f.WithNoticeAfter(30 * time.Millisecond)
	f.Observe = lasting(func(e lock.Event) { told <- e })
	came := beginAcquire(t, t.Context(), f)
	letGo(t, other)
	held := getHeld(t, came)
	select {
	case l := <-told:
		that(t, l.Info == nil || l.Info.Nonce != held.Info().Nonce, "told of itself: %v", l)
	default:
	}
	letGo(t, held)
}

// TestObserve_NotAfterwards: the callback races the end of the wait, and is never
// running once Acquire has returned. Whoever does not wait is not called.
func TestObserve_NotAfterwards(t *testing.T) { // guards: W10
	f := queued(t)
	returned := make(chan struct{})
	calls := 0 // for the race detector: Acquire orders the callback before what follows it
	f = f.WithNoticeAfter(50 * time.Microsecond)
	acquired := false
	f.Observe = func(e lock.Event) {
		switch {
		case e.Kind == lock.EventAcquired:
			acquired = true
		case e.Kind != lock.EventWaiting || e.Duration == 0:
		case acquired:
			t.Error("waits, when it has the lock")
		default:
			notYet(t, returned, "called after Acquire had returned")
			calls++
		}
	}
	plain := lock.File{Path: f.Path}
	for range 100 {
		before := calls
		returned, acquired = make(chan struct{}), false
		held := tryHold(t, plain)
		came := begin(t, f, false, func() (*lock.FileHold, error) {
			held, err := f.Acquire(t.Context())
			close(returned)
			return held, err
		})
		letGo(t, held)
		letGo(t, getHeld(t, came))
		if calls > before+1 {
			t.Fatalf("called %d times for one wait", calls-before)
		}
	}
	f = f.WithNoticeAfter(1)
	f.Observe = lasting(func(lock.Event) { t.Error("called without a wait") })
	parkedIs(t, 0)
	for range 100 {
		held := must(f.Acquire(t.Context()))(t)
		letGo(t, held)
	}
}

// putBareClaim puts the lock file of a program that takes no kernel lock: of a
// living process, which proves nothing else.
func putBareClaim(t *testing.T, path string) (pid int, remove func()) {
	t.Helper()
	pid = start(t, "member", path).Cmd.Process.Pid
	putClaim(t, path, evidence.Claim{PID: pid, CreatedAt: time.Now(), Cmd: "other program"})
	return pid, func() { removeFile(t, path) }
}

// TestAcquire_BareClaim: a lock file without a kernel lock is waited for at the
// head of the queue: whoever came first gets it first.
func TestAcquire_BareClaim(t *testing.T) { // guards: W9
	f := queued(t)
	_, remove := putBareClaim(t, f.Path)
	waits := make(chan struct{}, 1)
	observed := f
	observed.Observe = func(e lock.Event) {
		if e.Kind == lock.EventWaiting {
			waits <- struct{}{}
		}
	}
	first := beginAcquire(t, t.Context(), observed)
	<-waits // at the head: it has seen the lock file
	second := beginAcquire(t, t.Context(), f)
	other := start(t, "member", f.Path)
	other.Do("acquire", "waiting")
	remove()
	held := getHeld(t, first)
	equal(t, getClaim(t, f.Path).Nonce, held.Info().Nonce, "on disk")
	equal(t, len(second), 0, "the second got in too")
	letGo(t, held)
	// Of the other process and the second, either may be the next.
	done := make(chan struct{})
	go func() {
		defer close(done)
		if o := <-second; o.err == nil {
			o.held.Release()
		}
	}()
	other.Expect("held")
	other.Do("release", "released")
	promptly(t, "the second", func() { <-done })
	wantFreeSoon(t, f)
}

// wantFreeSoon is wantFree for a lock that is just being released.
func wantFreeSoon(t *testing.T, f lock.File) {
	t.Helper()
	letGo(t, tryHoldSoon(t, f))
	wantFree(t, f.Path)
}
