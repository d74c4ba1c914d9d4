package lock_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

var errGone = errors.New("gone")

// named is a Tie of a lock whose identity is its name.
func named(name string) (*lock.Tie, *fakeHold) {
	h := &fakeHold{}
	h.tie = lock.NewTie(h, func(identity any) bool { return identity == any(name) })
	return h.tie, h
}

func TestTie_Lose(t *testing.T) {
	tie, _ := named("a")
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx := tie.Context(parent)
	nested := tie.Context(ctx)
	derived, stop := context.WithCancel(ctx)
	defer stop()
	if ctx.Err() != nil {
		t.Fatal("ended at once: ", context.Cause(ctx))
	}
	if !tie.Lose(errGone) {
		t.Error("the first Lose returns false")
	}
	if tie.Lose(errors.New("another")) {
		t.Error("a second Lose returns true")
	}
	<-tie.Lost()
	for name, ctx := range map[string]context.Context{"before": ctx, "nested": nested, "derived": derived, "after": tie.Context(parent)} {
		<-ctx.Done()
		if context.Cause(ctx) != errGone || ctx.Err() != context.Canceled {
			t.Errorf("%s: %v, cause %v", name, ctx.Err(), context.Cause(ctx))
		}
	}
	if parent.Err() != nil {
		t.Error("the parent has ended")
	}
	tie.End()
	if ctx := tie.Context(parent); context.Cause(ctx) != errGone {
		t.Errorf("made after the end of a lost hold: cause %v", context.Cause(ctx))
	}
}

func TestTie_End(t *testing.T) {
	tie, _ := named("a")
	mine := errors.New("cause of the parent")
	parent, cancel := context.WithCancelCause(t.Context())
	before := tie.Context(parent)
	tie.End()
	tie.End()
	after := tie.Context(parent)
	if tie.Lose(errGone) {
		t.Error("a hold that is over can be lost")
	}
	select {
	case <-tie.Lost():
		t.Error("Lost is closed")
	default:
	}
	for name, ctx := range map[string]context.Context{"before": before, "after": after} {
		if ctx.Err() != nil {
			t.Errorf("%s: %v", name, context.Cause(ctx))
		}
	}
	cancel(mine)
	for name, ctx := range map[string]context.Context{"before": before, "after": after} {
		if <-ctx.Done(); context.Cause(ctx) != mine {
			t.Errorf("%s: cause %v, want the parent's", name, context.Cause(ctx))
		}
	}
}

type ctxKey struct{}

func TestTie_Carried(t *testing.T) {
	tieA, a := named("a")
	tieB, b := named("b")
	ctx := tieA.Context(context.WithValue(t.Context(), ctxKey{}, "value"))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = context.WithoutCancel(tieB.Context(ctx))
	want := func(identity any, hold *fakeHold) {
		t.Helper()
		got := lock.Carried(ctx, identity)
		if hold == nil && got != nil || hold != nil && got != lock.Hold(hold) {
			t.Errorf("%v: %v, want %v", identity, got, hold)
		}
	}
	want("a", a)
	want("b", b)
	want("c", nil)
	want(1, nil)
	if ctx.Value(ctxKey{}) != "value" {
		t.Error("a value is hidden")
	}
	if got := lock.Carried(t.Context(), "a"); got != nil {
		t.Errorf("another context carries %v", got)
	}
	tieB.End()
	want("a", a)
	want("b", nil)
	tieA.Lose(errGone) // and not yet released
	want("a", a)
	tieA.End()
	want("a", nil)
	tieA2, a2 := named("a")
	ctx = tieA2.Context(ctx)
	want("a", a2)
}

// counting is a parent that counts who waits for its end.
type counting struct {
	context.Context
	done  chan struct{}
	count atomic.Int64
}

func newCounting(t *testing.T) *counting {
	return &counting{Context: context.WithoutCancel(t.Context()), done: make(chan struct{})}
}

func (c *counting) Done() <-chan struct{} { return c.done }

func (c *counting) AfterFunc(func()) func() bool {
	c.count.Add(1)
	return func() bool {
		c.count.Add(-1)
		return true
	}
}

// TestTie_Collected: a parent that lives on does not keep the contexts of holds that are
// over; but while one is held, its contexts work though nobody refers to them.
func TestTie_Collected(t *testing.T) {
	const n = 100
	parent := newCounting(t)
	tie, _ := named("a")
	done := tie.Context(parent).Done()
	for range n - 1 {
		tie.Context(parent)
	}
	for range 5 {
		runtime.GC()
	}
	if got := parent.count.Load(); got != n {
		t.Errorf("%d of %d contexts are left while the lock is held", got, n)
	}
	tie.Lose(errGone)
	<-done
	if got := parent.count.Load(); got != 0 {
		t.Errorf("the parent keeps %d contexts that have ended", got)
	}

	tie, _ = named("b")
	for range n {
		tie.Context(parent)
	}
	kept := tie.Context(parent)
	tie.End()
	for range n {
		tie.Context(parent)
	}
	eventually(t, "all but one are collected", func() bool {
		runtime.GC()
		return parent.count.Load() == 1
	})
	if kept.Err() != nil {
		t.Error("the one that is referred to has ended: ", context.Cause(kept))
	}
	runtime.KeepAlive(kept)
}

// TestTie_EndedParents: contexts that have ended with their parents are not kept until the
// lock is released.
func TestTie_EndedParents(t *testing.T) {
	tie, _ := named("a")
	kept := tie.Context(t.Context())
	for range 1000 {
		parent, cancel := context.WithCancel(t.Context())
		tie.Context(parent)
		cancel()
	}
	eventually(t, "one context is kept", func() bool { return tie.Kept() == 1 })
	tie.Lose(errGone)
	<-kept.Done()
}

// TestTie_Concurrent: whatever comes first, Lost is closed once, and a context of a lost
// hold ends.
func TestTie_Concurrent(t *testing.T) {
	for range 200 {
		tie, _ := named("a")
		var all sync.WaitGroup
		var losses atomic.Int64
		contexts := make(chan context.Context, 8)
		for range 4 {
			all.Go(func() { contexts <- tie.Context(t.Context()) })
			all.Go(func() {
				if tie.Lose(errGone) {
					losses.Add(1)
				}
			})
			all.Go(func() { lock.Carried(tie.Context(t.Context()), "a") })
		}
		all.Go(tie.End)
		all.Wait()
		close(contexts)
		lost := false
		select {
		case <-tie.Lost():
			lost = true
		default:
		}
		if n := losses.Load(); lost && n != 1 || !lost && n != 0 {
			t.Errorf("lost: %v; %d times", lost, n)
		}
		for ctx := range contexts {
			if !lost && ctx.Err() != nil {
				t.Error("a context ended without a loss: ", context.Cause(ctx))
			}
			if lost && ctx.Err() != nil && context.Cause(ctx) != errGone {
				t.Error("cause: ", context.Cause(ctx))
			}
		}
	}
}

// TestHoldOf: Do's context leads to the hold, for its fence.
func TestHoldOf(t *testing.T) {
	if h := lock.HoldOf(t.Context()); h != nil {
		t.Error("a hold out of nothing:", h)
	}
	d := lock.Dir{Path: t.TempDir()}
	err := lock.Do(t.Context(), d, lock.Key{Space: "s", Name: "outer"}, func(ctx context.Context) error {
		outer := lock.HoldOf(ctx)
		if fence, err := outer.Fence(); err != nil || fence <= 0 {
			t.Errorf("fence %d (%v)", fence, err)
		}
		return lock.Do(ctx, d, lock.Key{Space: "s", Name: "inner"}, func(ctx context.Context) error {
			if inner := lock.HoldOf(ctx); inner == nil || inner == outer {
				t.Error("not the last one")
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}
