package elect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/elect"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// stand is an engine of which the test says what it does.
type stand struct {
	lock.Locker // nil
	acquire     func() error
	inspect     func() (lock.Status, error)
}

func (s stand) Acquire(ctx context.Context, _ lock.Key) (lock.Hold, error) {
	if s.acquire != nil {
		if err := s.acquire(); err != nil {
			return nil, err
		}
	}
	return had{}, ctx.Err()
}

func (s stand) Inspect(_ context.Context, asked lock.Key) (lock.Status, error) {
	if asked != key {
		return lock.Status{}, fmt.Errorf("asked for %v", asked)
	}
	return s.inspect()
}

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
					that(t, pause >= wait/2 && pause <= wait, "pause %d is %v; want %v to %v", i+1, pause, wait/2, wait)
					if pause == wait || pause == wait/2 {
						full++
					}
					wait = min(2*wait, most)
				}
				that(t, full <= 2, "%d pauses have no chance in them: %v", full, pauses)
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
	that(t, err != nil && err.Error() == "why it ends\ncontext canceled", "%q", err)
	// A leader that only says why is no reason to leave out that it was called off.
	ctx, cancel = context.WithCancelCause(t.Context())
	err = elect.Run(ctx, stand{}, key, func(ctx context.Context) error {
		cancel(why)
		return context.Cause(ctx)
	})
	that(t, errors.Is(err, context.Canceled) && errors.Is(err, why), "%q", err)
	// One that has done its work has, though the context has ended by then.
	ctx, cancel = context.WithCancelCause(t.Context())
	noErr(t, elect.Run(ctx, stand{}, key, func(context.Context) error { cancel(why); return nil }), "done, and called off")
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

// TestLeader_Who: whoever holds the lock leads, or may; nobody leads of a free one, or a dead
// holder's.
func TestLeader_Who(t *testing.T) {
	for state, leads := range map[evidence.State]bool{evidence.Held: true, evidence.Unknown: true, evidence.Dead: false, evidence.Free: false} {
		c := elect.Candidate{Key: key, Locker: stand{inspect: func() (lock.Status, error) {
			return lock.Status{State: state, Info: &evidence.Claim{PID: 4}}, nil
		}}}
		if s, err := c.Leader(t.Context()); (s != nil) != leads || leads && s.Info.PID != 4 || err != nil {
			t.Errorf("%s: %+v leads, %v", state, s, err)
		}
	}
	c := elect.Candidate{Key: key, Locker: stand{inspect: func() (lock.Status, error) { return lock.Status{}, errMine }}}
	if s, err := c.Leader(t.Context()); s != nil || err != errMine {
		t.Errorf("%+v leads, %v", s, err)
	}
}

// TestLeaders_Each runs on a clock of its own: each leader is told once, one with the pid of the
// last, too; an error is told, and the watch goes on.
func TestLeaders_Each(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := func(nonce string) func() (lock.Status, error) {
			return func() (lock.Status, error) {
				return lock.Status{Key: key, State: evidence.Held, Info: &evidence.Claim{PID: 1, Nonce: nonce}}, nil
			}
		}
		looks := []func() (lock.Status, error){
			held("a"), held("a"),
			func() (lock.Status, error) { return lock.Status{}, errMine },
			held("a"), held("b"), held("b"), held("a"), held("the end"),
		}
		n := 0
		c := elect.Candidate{Key: key, Locker: stand{inspect: func() (lock.Status, error) {
			n++
			return looks[min(n, len(looks))-1]()
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

// TestLeaders_End: what a look fails at because the watch is called off is nothing to tell.
func TestLeaders_End(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := elect.Candidate{Key: key, Locker: stand{inspect: func() (lock.Status, error) {
		cancel()
		return lock.Status{}, ctx.Err()
	}}}
	for e, err := range c.Leaders(ctx) {
		t.Errorf("told %+v, %v", e, err)
	}
}

// TestLeaders_Who runs on a clock of its own: processes of two hosts that have one pid, and no
// nonce, are two leaders; so are two of which only the kernel, or the server, tells the pid.
func TestLeaders_Who(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := func(host string) lock.Status {
			return lock.Status{State: evidence.Held, Info: &evidence.Claim{PID: 1, Hostname: host}}
		}
		seen := func(pid int) lock.Status {
			return lock.Status{State: evidence.Held, Processes: []lock.Process{{PID: pid}}}
		}
		gone := seen(9)
		gone.Gone = &evidence.Claim{PID: 8}
		looks, n := []lock.Status{
			claim("a"), claim("a"), claim("b"), claim("b"), seen(2), seen(2), seen(3), {State: evidence.Held}, {State: evidence.Held}, gone, gone,
		}, 0
		c := elect.Candidate{Key: key, Locker: stand{inspect: func() (lock.Status, error) {
			n++
			return looks[min(n, len(looks))-1], nil
		}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var told []string
		for s, err := range c.Leaders(ctx) {
			switch {
			case err != nil:
				t.Fatal(err)
			case s.Info != nil:
				told = append(told, s.Info.Hostname)
			case len(s.Processes) > 0:
				told = append(told, fmt.Sprint(s.Processes[0].PID))
			default:
				told = append(told, "?")
			}
		}
		if want := []string{"a", "b", "2", "3", "?", "9"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
