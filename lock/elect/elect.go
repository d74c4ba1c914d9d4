// Package elect has one of several candidates lead, on any engine of locks: the holder of the
// lock leads.
//
//	err := elect.Run(ctx, locks, lock.Key{Space: "app", Name: "leader"}, func(ctx context.Context) error {
//		return serve(ctx) // for as long as ctx goes on
//	})
//
// # What it can't promise
//
// That there is a leader at any time. After one has died, or resigned, the first waiter in the
// engine's queue leads, as soon as the engine has taken the lock from the dead. On files the
// kernel does that with the end of the process, and of its children that hold too. On PostgreSQL
// the server does it when it sees the connection's end: at once if the process died, after ten
// seconds if its machine or network did. A leader that is stuck leads on. So does one that is
// stopped: pg.Options.Lease is the bound for that. On etcd the bound for all of these is the
// lease, and half a second, as often as the cluster looks.
//
// That the old leader has stopped when the next one begins, if the old one lost the lock
// while it lived: its context ends, and it goes on until it looks. A process that was
// stopped, or a machine that slept, looks late. (On files this happens only if somebody removes
// files that must stay, or on a filesystem that is not local; then the loss may show only at
// the end, as an error of Run.) So what a leader writes must carry the fence, and the storage
// must refuse smaller ones:
//
//	fence, err := lock.HoldOf(ctx).Fence()
//
// A leader that does its work in steps, each with the fence, needs no other care.
package elect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// Candidate campaigns for the lead. Locker and Key must be set; all candidates name the same
// lock.
type Candidate struct {
	Locker lock.Locker
	Key    lock.Key
	// Failed, if it is set, is told of each error after which Run campaigns again.
	Failed func(error)
}

// Run is Candidate.Run, without being told of failures.
func Run(ctx context.Context, l lock.Locker, key lock.Key, lead func(context.Context) error) error {
	return Candidate{Locker: l, Key: key}.Run(ctx, lead)
}

const (
	// minPause and maxPause bound the time before Run campaigns again.
	minPause = 100 * time.Millisecond
	maxPause = 10 * time.Second
)

// Run campaigns for as long as ctx allows, and calls lead when it is elected. The context of
// lead carries the hold (lock.HoldOf), and ends when ctx does, or when the lock is lost, with
// a cause that matches lock.ErrLost. It leads until lead returns: lead must do so soon after
// its context has ended, as another may lead by then.
//
// When lead returns nil, and the lock was not lost, it resigns, and Run returns nil. When
// lead returns an error, the lock is lost, or the engine fails, Run resigns, pauses (a tenth
// of a second, longer each time up to ten, and by chance up to half less), and campaigns
// again, behind the others. A panic of lead is passed on, after it has resigned.
//
// When ctx ends, Run resigns as soon as lead has returned, and returns an error that matches
// that of ctx, and lead's. An error that no further campaign would cure is returned at once:
// lock.ErrInvalidName, and lock.ErrReentrant if the caller's context leads already.
func (c Candidate) Run(ctx context.Context, lead func(context.Context) error) error {
	wait := minPause
	for {
		var began time.Time
		err := lock.Do(ctx, c.Locker, c.Key, func(ctx context.Context, _ lock.Hold) error {
			began = time.Now()
			return lead(ctx)
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ended(ctx, err)
		case began.IsZero() && (errors.Is(err, lock.ErrInvalidName) || errors.Is(err, lock.ErrReentrant)):
			return err
		}
		if c.Failed != nil {
			c.Failed(err)
		}
		if !began.IsZero() && time.Since(began) > maxPause {
			wait = minPause
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return ended(ctx, nil)
		}
		wait = min(2*wait, maxPause)
	}
}

// ended is the error of a context that has ended, with one that came beside it.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, cause) && errors.Is(err, ctx.Err()):
		return err
	case cause == ctx.Err():
		return errors.Join(cause, err)
	}
	return errors.Join(fmt.Errorf("%w: %w", ctx.Err(), cause), err)
}

// Leader returns the lock of the leader, as Inspect shows it; nil if there is none. By the time
// that the caller reads it, another may lead.
func (c Candidate) Leader(ctx context.Context) (*lock.Status, error) {
	s, err := c.Locker.Inspect(ctx, c.Key)
	if err != nil || s.State == evidence.Free || s.State == evidence.Dead {
		return nil, err
	}
	return &s, nil
}

// watchEvery is how often Leaders looks, more or less.
const watchEvery = time.Second

// Leaders yields the leader (nil for none) now, and then whenever that has changed, until ctx
// ends. It looks about once a second, and so may miss a leader of less. An error is yielded,
// and the watch goes on.
func (c Candidate) Leaders(ctx context.Context) iter.Seq2[*lock.Status, error] {
	return func(yield func(*lock.Status, error) bool) {
		var last *lock.Status
		for first := true; ctx.Err() == nil; {
			now, err := c.Leader(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(nil, err) {
					return
				}
			case first || !same(last, now):
				first, last = false, now
				if !yield(now, nil) {
					return
				}
			}
			select {
			case <-time.After(watchEvery/2 + rand.N(watchEvery)):
			case <-ctx.Done():
			}
		}
	}
}

// same reports whether two looks have seen the same holding of the lock.
func same(a, b *lock.Status) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := leader(a), leader(b)
	return x.PID == y.PID && x.Hostname == y.Hostname && x.Nonce == y.Nonce
}

// leader is what is known of the holder.
func leader(s *lock.Status) evidence.Claim {
	switch {
	case s.Info != nil:
		return *s.Info
	case s.Gone != nil: // its children lead on
		return *s.Gone
	case len(s.Processes) > 0:
		return evidence.Claim{PID: s.Processes[0].PID}
	}
	return evidence.Claim{}
}
