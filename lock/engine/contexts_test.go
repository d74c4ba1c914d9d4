package engine_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/engine"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

var errGone = errors.New("gone")

// hold stands for an engine's.
type hold struct{ name string }

// named are the Contexts of a lock whose identity is its name.
func named(name string) (*engine.Contexts, *hold) {
	h, c := &hold{name}, new(engine.Contexts)
	c.Begin(h, func(identity any) bool { return identity == any(name) })
	return c, h
}

func TestContexts_Lose(t *testing.T) {
	contexts, _ := named("a")
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx := contexts.Context(parent)
	nested := contexts.Context(ctx)
	derived, stop := context.WithCancel(ctx)
	defer stop()
	if ctx.Err() != nil {
		t.Fatal("ended at once: ", context.Cause(ctx))
	}
	if !contexts.Lose(errGone) {
		t.Error("the first Lose returns false")
	}
	if contexts.Lose(errors.New("another")) {
		t.Error("a second Lose returns true")
	}
	<-contexts.Lost()
	for name, ctx := range map[string]context.Context{"before": ctx, "nested": nested, "derived": derived, "after": contexts.Context(parent)} {
		<-ctx.Done()
		if context.Cause(ctx) != errGone || ctx.Err() != context.Canceled {
			t.Errorf("%s: %v, cause %v", name, ctx.Err(), context.Cause(ctx))
		}
	}
	if parent.Err() != nil {
		t.Error("the parent has ended")
	}
	contexts.End()
	if ctx := contexts.Context(parent); context.Cause(ctx) != errGone {
		t.Errorf("made after the end of a lost hold: cause %v", context.Cause(ctx))
	}
}

// TestContexts_LostBefore: Lost is closed by a Lose that comes after it was asked for.
func TestContexts_LostBefore(t *testing.T) {
	contexts, _ := named("a")
	lost := contexts.Lost()
	contexts.Lose(errGone)
	select {
	case <-lost:
	default:
		t.Error("Lost is not closed")
	}
}

func TestContexts_End(t *testing.T) {
	contexts, _ := named("a")
	mine := errors.New("cause of the parent")
	parent, cancel := context.WithCancelCause(t.Context())
	before := contexts.Context(parent)
	contexts.End()
	contexts.End()
	after := contexts.Context(parent)
	if contexts.Lose(errGone) {
		t.Error("a hold that is over can be lost")
	}
	select {
	case <-contexts.Lost():
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

func TestHoldOf(t *testing.T) {
	contextsA, a := named("a")
	contextsB, b := named("b")
	ctx := contextsA.Context(context.WithValue(t.Context(), ctxKey{}, "value"))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = context.WithoutCancel(contextsB.Context(ctx))
	wants := func(identity any, want *hold) {
		t.Helper()
		got := engine.HoldOf(ctx, identity)
		if want == nil && got != nil || want != nil && got != any(want) {
			t.Errorf("%v: %v, want %v", identity, got, want)
		}
	}
	wants("a", a)
	wants("b", b)
	wants("c", nil)
	wants(1, nil)
	if ctx.Value(ctxKey{}) != "value" {
		t.Error("a value is hidden")
	}
	if got := engine.HoldOf(t.Context(), "a"); got != nil {
		t.Errorf("another context carries %v", got)
	}
	contextsB.End()
	wants("a", a)
	wants("b", nil)
	contextsA.Lose(errGone) // and not yet released
	wants("a", a)
	contextsA.End()
	wants("a", nil)
	contextsA2, a2 := named("a")
	ctx = contextsA2.Context(ctx)
	wants("a", a2)
}

// TestInnermost: the innermost hold, over or not.
func TestInnermost(t *testing.T) {
	contextsA, _ := named("a")
	contextsB, b := named("b")
	ctx := context.WithoutCancel(contextsB.Context(contextsA.Context(t.Context())))
	for range 2 {
		if got := engine.Innermost(ctx); got != any(b) {
			t.Errorf("%v, want %v", got, b)
		}
		contextsB.End()
	}
	if got := engine.Innermost(t.Context()); got != nil {
		t.Errorf("a context of no hold has %v", got)
	}
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

// TestContexts_Collected: a parent that lives on does not keep the contexts of holds that are
// over; but while one is held, its contexts work though nobody refers to them.
func TestContexts_Collected(t *testing.T) {
	const n = 100
	parent := newCounting(t)
	contexts, _ := named("a")
	done := contexts.Context(parent).Done()
	for range n - 1 {
		contexts.Context(parent)
	}
	for range 5 {
		runtime.GC()
	}
	if got := parent.count.Load(); got != n {
		t.Errorf("%d of %d contexts are left while the lock is held", got, n)
	}
	contexts.Lose(errGone)
	<-done
	if got := parent.count.Load(); got != 0 {
		t.Errorf("the parent keeps %d contexts that have ended", got)
	}

	contexts, _ = named("b")
	for range n {
		contexts.Context(parent)
	}
	kept := contexts.Context(parent)
	contexts.End()
	for range n {
		contexts.Context(parent)
	}
	testkit.Eventually(t, "all but one are collected", func() bool {
		runtime.GC()
		return parent.count.Load() == 1
	})
	if kept.Err() != nil {
		t.Error("the one that is referred to has ended: ", context.Cause(kept))
	}
	runtime.KeepAlive(kept)
}

// TestContexts_EndedParents: contexts that have ended with their parents are not kept until the
// lock is released.
func TestContexts_EndedParents(t *testing.T) {
	contexts, _ := named("a")
	kept := contexts.Context(t.Context())
	for range 1000 {
		parent, cancel := context.WithCancel(t.Context())
		contexts.Context(parent)
		cancel()
	}
	testkit.Eventually(t, "one context is kept", func() bool { return contexts.Kept() == 1 })
	contexts.Lose(errGone)
	<-kept.Done()
}

// TestContexts_Concurrent: whatever comes first, Lost is closed once, and a context of a lost
// hold ends.
func TestContexts_Concurrent(t *testing.T) {
	for range 200 {
		contexts, _ := named("a")
		var all sync.WaitGroup
		var losses atomic.Int64
		made := make(chan context.Context, 8)
		for range 4 {
			all.Go(func() { made <- contexts.Context(t.Context()) })
			all.Go(func() {
				if contexts.Lose(errGone) {
					losses.Add(1)
				}
			})
			all.Go(func() { engine.HoldOf(contexts.Context(t.Context()), "a") })
		}
		all.Go(contexts.End)
		all.Wait()
		close(made)
		lost := false
		select {
		case <-contexts.Lost():
			lost = true
		default:
		}
		if n := losses.Load(); lost && n != 1 || !lost && n != 0 {
			t.Errorf("lost: %v; %d times", lost, n)
		}
		for ctx := range made {
			if !lost && ctx.Err() != nil {
				t.Error("a context ended without a loss: ", context.Cause(ctx))
			}
			if lost && ctx.Err() != nil && context.Cause(ctx) != errGone {
				t.Error("cause: ", context.Cause(ctx))
			}
		}
	}
}
