// Package permits lets N work at a time, and no more: a semaphore between processes, on any
// engine of locks.
//
//	slots := permits.New(lock.Dir{Path: "/run/build"}, lock.Key{Space: "build", Name: "slots"}, 4)
//	err := slots.Do(ctx, func(ctx context.Context) error { return build(ctx) })
//
// A permit is a lock, NAME.permit-1 to NAME.permit-4. So a holder that dies has given its permit
// back, or left it to the children that hold it too. NAME itself is the gate: newcomers stand in
// its queue, and only the process that has the gate acquires a permit, or waits for the first to
// become free. So a pool is as fair as the engine's queue. "holdfast run --permits 4" has the
// same pool, by the path of the gate's lock file, or by its key in a database.
//
// An engine that does not take such a name, as pg in a numeric space, is refused
// (lock.ErrInvalidName).
//
// The first waiter waits for all permits at once, and needs as many connections of an engine
// that has connections.
//
// # One acquisition, one permit
//
// There is no weight. A process with some of the permits that it needs would keep them idle
// until it has the rest, and keep all others behind it, however little they need. Let what
// needs more be a pool of its own. Or acquire the gate as a plain lock, which lets nobody further
// in, and then wait until nobody has a permit, as "holdfast run" does without --permits.
//
// For the same reason a holder of a permit is refused a second one of the pool
// (lock.ErrReentrant), by the context of the first, and in processes below it (HOLDFAST_HELD):
// two holders that ask for a second one would wait for each other.
//
// # Different numbers
//
// A process that asks for 4 uses permits 1 to 4. If processes disagree, the largest number is
// the limit, and a process with a smaller one has fewer to choose from. While that one waits at
// the gate, it keeps back later ones, also where a higher permit is free.
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
	"github.com/holdfast-go/holdfast/lock/evidence"
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

// New returns a pool of n permits, and acquires nothing. To acquire from a pool of none is
// lock.ErrInvalidName.
func New(l lock.Locker, key lock.Key, n int) *Pool {
	return &Pool{locker: l, key: key, size: n, resized: make(chan struct{})}
}

// Resize changes the number for this process. Every process has to do so. Further permits are
// available at once, to waiters too. Permits with higher numbers than n are not acquired again:
// once those that are held have been released, no more than n are out.
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

// Key returns the key of a permit, from 1, of the pool with this gate, as List shows it.
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

// Permit is a permit that is held.
type Permit struct {
	lock.Hold
	number   int
	contexts engine.Contexts
}

// Number is the number of the permit, from 1. Nobody else has it at the same time. Hold.Fence
// grows with each holder of this number, and says nothing about the fences of others.
func (h *Permit) Number() int { return h.number }

// Context returns a context that carries the permit, and ends when it is lost: see lock.Hold.
func (h *Permit) Context(parent context.Context) context.Context {
	return h.contexts.Context(h.Hold.Context(parent))
}

// Release gives the permit back, as a lock is released.
func (h *Permit) Release() error {
	err := h.Hold.Release()
	h.contexts.End()
	return err
}

// question asks a permit that a context carries whether it is of this pool. The engine
// answers: the lockers of two pools may be of one folder, and yet not compare as equal.
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

// Acquire acquires a permit, waiting behind earlier callers for as long as ctx allows. When
// ctx ends nothing is held, and the error matches a *lock.LockedError as that of
// Locker.Acquire does: it names a holder of a permit, or of the gate.
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

// atGate is how long TryAcquire waits for a process that is passing the gate.
const atGate = 50 * time.Millisecond

// TryAcquire acquires a permit if one is free, and nobody waits.
func (p *Pool) TryAcquire(ctx context.Context) (*Permit, error) {
	if err := p.reentrant(ctx); err != nil {
		return nil, p.wrap(err)
	}
	var locked *lock.LockedError
	gate, err := p.locker.TryAcquire(ctx, p.key)
	if errors.As(err, &locked) && !errors.Is(err, lock.ErrReentrant) {
		gate, err = lock.AcquireWithin(ctx, p.locker, p.key, atGate)
	}
	if err != nil {
		if errors.As(err, &locked) && ctx.Err() == nil && !errors.Is(err, lock.ErrReentrant) {
			locked.Cause, locked.Waited = nil, 0 // for the caller, it has not waited
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

// reentrant is an error if the caller's own context, or a process above, has a permit.
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
func isNamed(above string, holder *evidence.Claim) bool {
	return holder != nil && holder.Nonce != "" && strings.Contains(above, holder.Nonce)
}

// refused is the error if this permit is the caller's own.
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

// leave releases the gate. A gate that was lost is no loss: what is held is the permit.
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

// pass acquires a free permit, or waits for the first. The caller has the gate.
func (p *Pool) pass(ctx context.Context) (*Permit, error) {
	for {
		size, resized := p.now()
		permit, err := p.try(ctx, size)
		var locked *lock.LockedError
		if err == nil || !errors.As(err, &locked) {
			return permit, err
		}
		if permit, err = p.first(ctx, size, resized); permit != nil || err != nil {
			return permit, err
		}
	}
}

// try acquires a free permit. The error is that of the last one that is not free.
func (p *Pool) try(ctx context.Context, size int) (*Permit, error) {
	err := fmt.Errorf("%w: %d permits", lock.ErrInvalidName, size)
	for number := 1; number <= size; number++ {
		var held lock.Hold
		var locked *lock.LockedError
		if held, err = p.locker.TryAcquire(ctx, p.permit(number)); err == nil {
			return p.hold(held, number), nil
		} else if !errors.As(err, &locked) {
			return nil, err
		}
	}
	return nil, err
}

// first waits for the first permit to become free. It returns nothing when the pool is resized.
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
	h.contexts.Begin(h, h.is(p.key))
	return h
}
