package elect_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/elect"
)

// stand is an engine of which the test says what it does.
type stand struct {
	lock.Locker // nil
	acquire     func() error
	list        func(yield func(lock.Entry, error) bool)
}

func (s stand) Acquire(ctx context.Context, _ lock.Key) (lock.Hold, error) {
	if s.acquire != nil {
		if err := s.acquire(); err != nil {
			return nil, err
		}
	}
	return had{}, ctx.Err()
}

func (s stand) List(context.Context) iter.Seq2[lock.Entry, error] { return s.list }

// had is a lock that is held.
type had struct{ lock.Hold }

func (had) Context(parent context.Context) context.Context { return parent }
func (had) Release() error                                 { return nil }

var errMine = errors.New("mine")

// TestPauses runs on a clock of its own: after each failure a candidate pauses, longer each time,
// up to a bound, and never for a time that is known beforehand; after it has led for long, it
// begins with the shortest pause. So it is with an engine that fails.
func TestPauses(t *testing.T) {
	const least, most = 100 * time.Millisecond, 10 * time.Second
	for name, engineFails := range map[string]bool{"the leader fails": false, "the engine fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				const turns = 14
				var pauses []time.Duration
				var failures int
				turn, last := 0, time.Now()
				campaign := func() error {
					if turn++; turn > 1 {
						pauses = append(pauses, time.Since(last))
					}
					if turn == turns {
						cancel()
					}
					if turn == turns-2 && !engineFails {
						time.Sleep(most + 1) // it leads for long
					}
					last = time.Now()
					return errMine
				}
				c := elect.Candidate{Locker: stand{}, Key: key, Failed: func(err error) {
					if failures++; !errors.Is(err, errMine) {
						t.Errorf("failed with %v", err)
					}
				}}
				lead := func(context.Context) error { return campaign() }
				if engineFails {
					c.Locker = stand{acquire: campaign}
				}
				if err := c.Run(ctx, lead); !errors.Is(err, context.Canceled) || !errors.Is(err, errMine) {
					t.Errorf("in the end: %v", err)
				}
				if failures != turns-1 || len(pauses) != turns-1 {
					t.Fatalf("%d failures, %d pauses", failures, len(pauses))
				}
				full, wait := 0, least
				for i, pause := range pauses {
					if i == turns-3 && !engineFails {
						wait = least
					}
					if pause < wait/2 || pause > wait {
						t.Errorf("pause %d is %v; want %v to %v", i+1, pause, wait/2, wait)
					}
					if pause == wait || pause == wait/2 {
						full++
					}
					wait = min(2*wait, most)
				}
				if full > 2 {
					t.Errorf("%d pauses have no chance in them: %v", full, pauses)
				}
			})
		})
	}
}

// TestEnds: the end of its context says why it has come, with what the leader said; also in a
// pause.
func TestEnds(t *testing.T) {
	why := errors.New("why it ends")
	for name, inPause := range map[string]bool{"leading": false, "in a pause": true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := elect.Candidate{Locker: stand{}, Key: key, Failed: func(error) { cancel(why) }}
		err := c.Run(ctx, func(context.Context) error {
			if !inPause {
				cancel(why)
			}
			return errMine
		})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, errMine) == inPause {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What says all that already is not said twice.
	ctx, cancel := context.WithCancelCause(t.Context())
	err := elect.Run(ctx, stand{}, key, func(ctx context.Context) error {
		cancel(why)
		return errors.Join(context.Cause(ctx), ctx.Err())
	})
	if err == nil || err.Error() != "why it ends\ncontext canceled" {
		t.Errorf("%q", err)
	}
}

// TestNoCampaign_OfLead: an error of the leader is its own, whatever it matches: another campaign
// may do better.
func TestNoCampaign_OfLead(t *testing.T) {
	for _, err := range []error{lock.ErrInvalidName, lock.ErrReentrant} {
		turns := 0
		if got := elect.Run(t.Context(), stand{}, key, func(context.Context) error {
			if turns++; turns == 1 {
				return err
			}
			return nil
		}); got != nil || turns != 2 {
			t.Errorf("%v: %v after %d turns", err, got, turns)
		}
	}
}

// TestLeader_Among: the leader is whoever holds this lock, and not a waiter, nor another lock's;
// what can't be read may be of another lock, and hides nobody.
func TestLeader_Among(t *testing.T) {
	entry := func(key lock.Key, granted bool, pid int) lock.Entry {
		return lock.Entry{Key: key, Granted: granted, State: lock.StateHeld, Info: &lock.LockInfo{PID: pid}}
	}
	all := []lock.Entry{
		entry(lock.Key{Space: key.Space, Name: "other"}, true, 1), entry(lock.Key{Space: "other", Name: key.Name}, true, 2),
		entry(key, false, 3), entry(key, true, 4),
	}
	list := func(entries []lock.Entry, err error) elect.Candidate {
		return elect.Candidate{Key: key, Locker: stand{list: func(yield func(lock.Entry, error) bool) {
			if err != nil && !yield(lock.Entry{}, err) {
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
		}}}
	}
	for _, err := range []error{nil, errMine} {
		if e, got := list(all, err).Leader(t.Context()); e == nil || e.Info.PID != 4 || got != nil {
			t.Errorf("%+v leads, %v", e, got)
		}
		if e, got := list(all[:3], err).Leader(t.Context()); e != nil || !errors.Is(got, err) {
			t.Errorf("%+v leads, %v; want nobody, %v", e, got, err)
		}
	}
}

// TestLeaders_Each runs on a clock of its own: each leader is told once, one with the pid of the
// last, too; an error is told, and the watch goes on.
func TestLeaders_Each(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := func(nonce string) func(func(lock.Entry, error) bool) {
			return func(yield func(lock.Entry, error) bool) {
				yield(lock.Entry{Key: key, Granted: true, State: lock.StateHeld, Info: &lock.LockInfo{PID: 1, Nonce: nonce}}, nil)
			}
		}
		looks := []func(func(lock.Entry, error) bool){
			held("a"), held("a"),
			func(yield func(lock.Entry, error) bool) { yield(lock.Entry{}, errMine) },
			held("a"), held("b"), held("b"), held("a"), held("the end"),
		}
		n := 0
		c := elect.Candidate{Key: key, Locker: stand{list: func(yield func(lock.Entry, error) bool) {
			n++
			looks[min(n, len(looks))-1](yield)
		}}}
		var told []string
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for who misses the end
		defer cancel()
		for e, err := range c.Leaders(ctx) {
			if err != nil {
				told = append(told, err.Error())
			} else {
				told = append(told, e.Info.Nonce)
			}
			if n >= len(looks) {
				break
			}
		}
		if want := []string{"a", "mine", "b", "a", "the end"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
