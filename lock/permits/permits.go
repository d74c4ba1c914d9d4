// Package permits lets so many work at a time, and no more: a semaphore, on any engine of
// locks, between processes.
//
//	slots := permits.New(lock.Dir{Path: "/run/build"}, lock.Key{Space: "build", Name: "slots"}, 4)
//	err := slots.Do(ctx, func(ctx context.Context) error { return build(ctx) })
//
// A permit is a lock, NAME.permit-1 to NAME.permit-4, so whoever dies with one has given it
// back, or left it to the children that hold it too. NAME itself is the gate: newcomers stand
// in its queue, and only who has passed it takes a permit, or waits for whichever comes free
// first. So it is as fair as the engine's queue. "holdfast run -permits 4" has the same pool,
// by the path of the gate's lock file, or by its key in a database.
//
// An engine that does not take such a name, as pg in a numeric space, is refused
// (lock.ErrInvalidName).
//
// Who waits at the gate waits for all permits at once, and needs as many connections of an
// engine that has connections.
//
// # One acquisition, one permit
//
// There is no weight: who had some of the permits that they need would keep them idle until
// they have the rest, and all others, however little they need, behind them. Let what needs
// more be a pool of its own, or take the gate as a plain lock, which lets nobody further in, and
// then wait until nobody has a permit, as "holdfast run" does without -permits.
//
// For the same reason whoever has a permit is refused a second one of the pool
// (lock.ErrReentrant), by the context of the first, and in a process that comes from one which
// has it (HOLDFAST_HELD): two who both do that would wait for each other.
//
// # Different numbers
//
// Who says 4 takes the permits 1 to 4, whatever others say. So no more than the greatest number
// work at a time, and who says less has fewer to choose from; who waits for those, at the gate,
// keeps back whoever came later, also where a higher one is free.
package permits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
)

// Pool is a number of permits. All processes that share it name the same locker, key and
// number. Its methods may be called by several goroutines at once.
type Pool struct {
	locker lock.Locker
	key    lock.Key

	mu      sync.Mutex // guards what follows
	size    int
	resized chan struct{} // closed, and replaced, by Resize
}

// New returns a pool of n permits. Nothing is taken. Of a pool of none, acquiring is
// lock.ErrInvalidName.
func New(l lock.Locker, key lock.Key, n int) *Pool {
	return &Pool{locker: l, key: key, size: n, resized: make(chan struct{})}
}

// Resize changes the number for this process. Every process has to do so. More permits can
// be had at once, by who waits already, too. Of fewer, no more than n are out once those
// with higher numbers have been given back: nobody takes one of them again.
func (p *Pool) Resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = n
	close(p.resized)
	p.resized = make(chan struct{})
}

func (p *Pool) now() (size int, resized <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size, p.resized
}

// infix stands between the name of the gate and the number of a permit.
const infix = ".permit-"

// Key returns the key of a permit, from 1, of the pool with this gate: what shows it in List.
func Key(gate lock.Key, number int) lock.Key {
	return lock.Key{Space: gate.Space, Name: gate.Name + infix + strconv.Itoa(number)}
}

// Number is the inverse of Key: 0 if key is not that of a permit of this gate.
func Number(gate, key lock.Key) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(key.Name, gate.Name+infix))
	if number < 1 || Key(gate, number) != key {
		return 0
	}
	return number
}

func (p *Pool) permit(number int) lock.Key { return Key(p.key, number) }

// Permit is one that is held.
type Permit struct {
	lock.Hold
	number   int
	contexts *engine.Contexts
}

// Number is which permit it is, from 1. Nobody else has it at the same time. Hold.Fence is
// the fence of this one: it grows with each holder of the number, and says nothing about
// those of others.
func (h *Permit) Number() int { return h.number }

// Context returns a context that ends when the permit is lost, and carries it: see lock.Hold.
func (h *Permit) Context(parent context.Context) context.Context {
	return h.contexts.Context(h.Hold.Context(parent))
}

// Release gives the permit back, as a lock is released.
func (h *Permit) Release() error {
	err := h.Hold.Release()
	h.contexts.End()
	return err
}

// question is what a permit that a context carries is asked: whether it is of this pool. The
// engine tells: the lockers of two pools may be of one folder, and yet not compare as equal.
type question struct {
	key  lock.Key
	ours func(number int) bool
}

func (h *Permit) is(key lock.Key) func(any) bool {
	return func(identity any) bool {
		q, ok := identity.(question)
		return ok && q.key == key && q.ours(h.number)
	}
}

// Acquire takes a permit, waiting behind those who came before for as long as ctx allows.
// When ctx ends nothing is held, and the error matches an *lock.ErrLocked as that of
// Locker.Acquire does: it names one of those who have permits, or who is before us.
func (p *Pool) Acquire(ctx context.Context) (*Permit, error) {
	if err := p.reentrant(ctx); err != nil {
		return nil, p.wrap(err)
	}
	gate, err := p.locker.Acquire(ctx, p.key)
	if err != nil {
		return nil, p.wrap(err)
	}
	permit, err := p.pass(ctx)
	return p.leave(gate, permit, err)
}

// atGate is how long TryAcquire outwaits who is passing the gate.
const atGate = 50 * time.Millisecond

// TryAcquire takes a permit if one is free, and nobody waits.
func (p *Pool) TryAcquire(ctx context.Context) (*Permit, error) {
	if err := p.reentrant(ctx); err != nil {
		return nil, p.wrap(err)
	}
	var locked *lock.ErrLocked
	gate, err := p.locker.TryAcquire(ctx, p.key)
	if errors.As(err, &locked) && !errors.Is(err, lock.ErrReentrant) {
		gate, err = lock.AcquireWithin(ctx, p.locker, p.key, atGate)
	}
	if err != nil {
		if errors.As(err, &locked) && ctx.Err() == nil && !errors.Is(err, lock.ErrReentrant) {
			locked.Cause, locked.Waited = nil, 0 // it has not waited, to whom it may concern
		}
		return nil, p.wrap(err)
	}
	size, _ := p.now()
	permit, err := p.try(ctx, size)
	return p.leave(gate, permit, err)
}

// Do is lock.Do with a permit.
func (p *Pool) Do(ctx context.Context, fn func(context.Context) error) (err error) {
	held, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := held.Release(); err == nil {
			err = rerr
		}
	}()
	return fn(held.Context(ctx))
}

func (p *Pool) wrap(err error) error { return fmt.Errorf("permits of %s: %w", p.key, err) }

// heldVar is the environment variable of lock.FileHold.Environ.
const heldVar = "HOLDFAST_HELD"

// reentrant is an error if the caller's own context has a permit, or a process above.
func (p *Pool) reentrant(ctx context.Context) (err error) {
	engine.HoldOf(ctx, question{p.key, func(number int) bool {
		err = p.refused(ctx, number)
		return err != nil
	}})
	files, ok := p.locker.(interface {
		At(lock.Key) (lock.File, error)
	})
	above := os.Getenv(heldVar)
	if err != nil || !ok || above == "" {
		return err
	}
	size, _ := p.now()
	for number := 1; number <= size && err == nil; number++ {
		f, ferr := files.At(p.permit(number))
		if ferr != nil {
			return ferr
		}
		found, ferr := f.Inspect(ctx)
		if ferr == nil && (isNamed(above, found.Info) || isNamed(above, found.Gone)) {
			err = p.refused(ctx, number)
		}
	}
	return err
}

// isNamed reports whether the variable may name a holding. Acquiring looks closer.
func isNamed(above string, holder *lock.LockInfo) bool {
	return holder != nil && holder.Nonce != "" && strings.Contains(above, holder.Nonce)
}

// refused is the error for a permit of the caller's own, if it is.
func (p *Pool) refused(ctx context.Context, number int) error {
	held, err := p.locker.TryAcquire(ctx, p.permit(number))
	switch {
	case err == nil: // it is of another engine, or lost
		_ = held.Release()
	case errors.Is(err, lock.ErrReentrant):
		return err
	}
	return nil
}

// leave lets the next one pass. A gate that was lost is no loss: what is held is the permit.
func (p *Pool) leave(gate lock.Hold, permit *Permit, err error) (*Permit, error) {
	if rerr := gate.Release(); rerr != nil && !errors.Is(rerr, lock.ErrLost) {
		err = errors.Join(err, rerr)
		if permit != nil {
			err = errors.Join(err, permit.Release())
		}
	}
	if err != nil {
		return nil, p.wrap(err)
	}
	return permit, nil
}

// pass is for who has the gate: it takes a permit that is free, or waits for the first.
func (p *Pool) pass(ctx context.Context) (*Permit, error) {
	for {
		size, resized := p.now()
		permit, err := p.try(ctx, size)
		var locked *lock.ErrLocked
		if err == nil || !errors.As(err, &locked) {
			return permit, err
		}
		if permit, err = p.first(ctx, size, resized); permit != nil || err != nil {
			return permit, err
		}
	}
}

// try takes a permit that is free. The error is that of the last one that is not.
func (p *Pool) try(ctx context.Context, size int) (*Permit, error) {
	err := fmt.Errorf("%w: %d permits", lock.ErrInvalidName, size)
	for number := 1; number <= size; number++ {
		var held lock.Hold
		var locked *lock.ErrLocked
		if held, err = p.locker.TryAcquire(ctx, p.permit(number)); err == nil {
			return p.hold(held, number), nil
		} else if !errors.As(err, &locked) {
			return nil, err
		}
	}
	return nil, err
}

// first waits for whichever permit comes first. It returns nothing when the pool is resized.
func (p *Pool) first(ctx context.Context, size int, resized <-chan struct{}) (permit *Permit, err error) {
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		held   lock.Hold
		number int
		err    error
	}
	came := make(chan outcome)
	for number := 1; number <= size; number++ {
		go func() {
			held, err := p.locker.Acquire(all, p.permit(number))
			came <- outcome{held, number, err}
		}()
	}
	over := false // the others were called off
	for waits := size; waits > 0; {
		select {
		case <-resized:
			resized, over = nil, true
			cancel()
			continue
		case o := <-came:
			waits--
			switch {
			case o.err != nil && !over:
				err = o.err
			case o.err != nil:
			case permit == nil && err == nil:
				permit = p.hold(o.held, o.number)
			default: // two at once
				_ = o.held.Release()
			}
		}
		over = true
		cancel()
	}
	return permit, err
}

func (p *Pool) hold(held lock.Hold, number int) *Permit {
	h := &Permit{Hold: held, number: number}
	h.contexts = engine.NewContexts(h, h.is(p.key))
	return h
}
