package permits_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/permits"
)

// counting counts what is waited for, and what is tried.
type counting struct {
	lock.Dir
	waits, tries int
}

func (l *counting) TryAcquire(ctx context.Context, k lock.Key) (lock.Hold, error) {
	l.tries++
	return l.Dir.TryAcquire(ctx, k)
}

// TestOthersPermit: a context that carries another pool's permit, or carried one that was given
// back, is as any other: nothing is tried but what is free.
func TestOthersPermit(t *testing.T) {
	calls := &counting{Dir: lock.Dir{Path: t.TempDir()}}
	p := permits.New(calls, key, 1)
	for name, givenBack := range map[string]bool{"given back": true, "another pool's": false} {
		of := p
		if !givenBack {
			of = permits.New(calls, lock.Key{Space: "test", Name: "other"}, 1)
		}
		held := take(t, of)
		ctx := held.Context(t.Context())
		if givenBack {
			check(t, held.Release())
		}
		calls.tries = 0
		again := must(p.Acquire(ctx))(t)
		check(t, again.Release())
		that(t, calls.tries == 1, "%s: %d locks are tried, want one", name, calls.tries)
		check(t, held.Release())
	}
}

func (l *counting) Acquire(ctx context.Context, k lock.Key) (lock.Hold, error) {
	l.waits++
	return l.Dir.Acquire(ctx, k)
}

// stubborn is an engine whose gate says of each release that it failed, as a file that can't be
// removed does, or that it was lost.
type stubborn struct {
	lock.Dir
	err error
}

func (l stubborn) Acquire(ctx context.Context, k lock.Key) (lock.Hold, error) {
	return l.held(k)(l.Dir.Acquire(ctx, k))
}

func (l stubborn) TryAcquire(ctx context.Context, k lock.Key) (lock.Hold, error) {
	return l.held(k)(l.Dir.TryAcquire(ctx, k))
}

func (l stubborn) held(k lock.Key) func(lock.Hold, error) (lock.Hold, error) {
	return func(h lock.Hold, err error) (lock.Hold, error) {
		if err == nil && k == key {
			h = stuck{h, l.err}
		}
		return h, err
	}
}

type stuck struct {
	lock.Hold
	err error
}

func (h stuck) Release() error { return errors.Join(h.err, h.Hold.Release()) }

// TestGateFails: who can't give up the gate has no permit, and nobody else has theirs. A gate
// that was lost is no loss.
func TestGateFails(t *testing.T) {
	dir := lock.Dir{Path: t.TempDir()}
	mine := errors.New("mine")
	for _, acquire := range []func(*permits.Pool, context.Context) (*permits.Permit, error){(*permits.Pool).Acquire, (*permits.Pool).TryAcquire} {
		if held, err := acquire(permits.New(stubborn{dir, mine}, key, 2), t.Context()); held != nil || !errors.Is(err, mine) {
			t.Errorf("%v, %v; want %v", held, err, mine)
		}
		wantFree(t, permits.New(dir, key, 2), 2)
		held := must(acquire(permits.New(stubborn{dir, lock.ErrLost}, key, 2), t.Context()))(t)
		check(t, held.Release())
	}
}

// TestDo_Error: what the function says of itself is told, also when the permit was lost meanwhile.
func TestDo_Error(t *testing.T) {
	mine := errors.New("mine")
	err := permits.New(lock.Dir{Path: t.TempDir()}, key, 1).Do(t.Context(), func(ctx context.Context) error {
		return errors.Join(mine, os.Remove(lock.HoldOf(ctx).(*permits.Permit).Hold.(*lock.FileHold).Path()))
	})
	wantErr(t, err, mine)
}

// broken is an engine that fails at one lock.
type broken struct {
	lock.Dir
	at  lock.Key
	err error
}

func (l broken) TryAcquire(ctx context.Context, k lock.Key) (lock.Hold, error) {
	if k == l.at {
		return nil, l.err
	}
	return l.Dir.TryAcquire(ctx, k)
}

// TestEngineFails: what the engine can't do is told, and is no reason to take another permit.
func TestEngineFails(t *testing.T) {
	dir, mine := lock.Dir{Path: t.TempDir()}, errors.New("mine")
	for number := range 2 {
		p := permits.New(broken{dir, permits.Key(key, number+1), mine}, key, 2)
		first := take(t, permits.New(dir, key, 2)) // so that the second one is asked for, too
		if held, err := p.TryAcquire(t.Context()); held != nil || !errors.Is(err, mine) {
			t.Errorf("permit %d fails: %v, %v; want %v", number+1, held, err, mine)
		}
		check(t, first.Release())
		wantFree(t, permits.New(dir, key, 2), 2)
	}
}

// passing is an engine at whose gate somebody is, who goes when it is waited for.
type passing struct {
	lock.Dir
	gate lock.Hold
}

func (l passing) Acquire(ctx context.Context, k lock.Key) (lock.Hold, error) {
	if err := l.gate.Release(); err != nil {
		return nil, err
	}
	return l.Dir.Acquire(ctx, k)
}

// TestTry_AtGate: a try outwaits who is just passing the gate.
func TestTry_AtGate(t *testing.T) {
	dir := lock.Dir{Path: t.TempDir()}
	gate := must(dir.TryAcquire(t.Context(), key))(t)
	held := must(permits.New(passing{dir, gate}, key, 1).TryAcquire(t.Context()))(t)
	check(t, held.Release())
}

// TestOtherEngine: a permit of the same name elsewhere is another's, and what was asked to find
// that out is given back.
func TestOtherEngine(t *testing.T) {
	here, there := permits.New(lock.Dir{Path: t.TempDir()}, key, 2), permits.New(lock.Dir{Path: t.TempDir()}, key, 2)
	held := take(t, there)
	got := must(here.Acquire(held.Context(t.Context())))(t)
	check(t, errors.Join(got.Release(), held.Release()))
	wantFree(t, here, 2)
}

// failing is an engine that fails while it waits for one lock, which is free after that.
type failing struct {
	lock.Dir
	at   lock.Key
	fail func() error
}

func (l failing) Acquire(ctx context.Context, k lock.Key) (lock.Hold, error) {
	if k == l.at {
		return nil, l.fail()
	}
	return l.Dir.Acquire(ctx, k)
}

// TestWaitFails: an engine that fails while somebody waits for a permit ends the wait, and says
// why.
func TestWaitFails(t *testing.T) {
	dir, mine := lock.Dir{Path: t.TempDir()}, errors.New("mine")
	taken := take(t, permits.New(dir, key, 1))
	fail := func() error { return errors.Join(mine, taken.Release()) }
	held, err := permits.New(failing{dir, permits.Key(key, 1), fail}, key, 1).Acquire(t.Context())
	if held != nil || !errors.Is(err, mine) {
		t.Fatalf("%v, %v; want %v", held, err, mine)
	}
	wantFree(t, permits.New(dir, key, 1), 1)
}
