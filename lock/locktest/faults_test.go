package locktest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// faults are ways to break an engine, and what of the suite must find each out.
var faults = map[string]struct {
	fault func(*faulty)
	found []string
}{
	"grants everything": {
		func(f *faulty) {
			always := func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				d.Path, _ = os.MkdirTemp(d.Path, "alone-")
				return d.Acquire(ctx, key)
			}
			f.acquire, f.try = always, always
		},
		[]string{"Exclusion/Goroutines", "Exclusion/Processes", "Exclusion/TryRace", "Try/Held", "Reentrant/Acquire", "Set/AllOrNone", "Elect/LeaderKilled", "Permits/Processes", "Permits/Resize"},
	},
	"never notices loss": {
		func(f *faulty) {
			f.holds(func(h *hold) {
				h.release = func(h lock.Hold) error {
					if err := h.Release(); !errors.Is(err, lock.ErrLost) {
						return err
					}
					return nil
				}
			})
		},
		[]string{"Lost/Release", "Lost/Do", "Elect/Lost"},
	},
	"deadlocks on re-entrance": {
		func(f *faulty) {
			f.holds(func(h *hold) {
				h.context = func(_ lock.Hold, parent context.Context) context.Context { return parent }
			})
		},
		[]string{"Reentrant/Acquire", "Reentrant/Do", "Reentrant/OtherKey"},
	},
	"can't be cancelled": {
		func(f *faulty) {
			f.acquire = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				return d.Acquire(context.WithoutCancel(ctx), key)
			}
		},
		[]string{"Wait/Cancel", "Wait/Timeout", "Wait/Within", "Wait/EndedContext", "Set/AllOrNone"},
	},
	"grants to who has left": {
		func(f *faulty) {
			f.acquire = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				came := make(chan lock.Hold)
				go func() {
					held, _ := d.Acquire(context.WithoutCancel(ctx), key)
					came <- held
				}()
				select {
				case held := <-came:
					return held, nil
				case <-ctx.Done():
					err := &lock.LockedError{Status: lock.Status{Path: key.String()}, Waited: 1, Cause: context.Cause(ctx)}
					return nil, err
				}
			}
		},
		[]string{"Wait/Cancel", "Wait/EndRacesRelease", "Permits/GivenUp"},
	},
	"keeps the lock of the dead": {
		func(f *faulty) { f.acquire, f.try = acquireExisting, tryExisting },
		[]string{"Death/HolderKilled", "Death/HolderExits", "Exclusion/KilledProcesses", "Elect/LeaderKilled", "Permits/Processes", "Permits/GateKilled"},
	},
	"fence stands still": {
		func(f *faulty) {
			f.holds(func(h *hold) { h.fence = func(lock.Hold) (int64, error) { return 1, nil } })
		},
		[]string{"Fence/Increases", "Fence/SomeDoNotAsk", "Fence/Rule", "Fence/Moved", "Death/HolderKilled"},
	},
	"fence goes on": {
		func(f *faulty) {
			var n atomic.Int64
			f.holds(func(h *hold) {
				h.fence = func(lock.Hold) (int64, error) { return time.Now().UnixMicro() + n.Add(1), nil }
			})
		},
		[]string{"Fence/Stable"},
	},
	"fence in nanoseconds": {
		func(f *faulty) {
			f.holds(func(h *hold) {
				h.fence = func(h lock.Hold) (int64, error) { n, err := h.Fence(); return 1000 * n, err }
			})
		},
		[]string{"Fence/Rule"},
	},
	"fence that is counted": { // from far below the time
		func(f *faulty) {
			f.holds(func(h *hold) {
				h.fence = func(h lock.Hold) (int64, error) { n, err := h.Fence(); return n - 1e15, err }
			})
		},
		[]string{"Fence/Rule", "Fence/Moved"},
	},
	"release fails the second time": {
		func(f *faulty) {
			f.holds(func(h *hold) {
				over := make(chan struct{}, 1)
				h.release = func(h lock.Hold) error {
					select {
					case over <- struct{}{}:
						return h.Release()
					default:
						return lock.ErrLost
					}
				}
			})
		},
		[]string{"Release/Twice", "Release/Concurrently", "Release/OfOldHold"},
	},
	"release ends contexts": {
		func(f *faulty) {
			f.holds(func(h *hold) {
				var cancels []context.CancelFunc
				h.context = func(h lock.Hold, parent context.Context) context.Context {
					ctx, cancel := context.WithCancel(h.Context(parent))
					cancels = append(cancels, cancel)
					return ctx
				}
				h.release = func(h lock.Hold) error {
					for _, cancel := range cancels {
						cancel()
					}
					return h.Release()
				}
			})
		},
		[]string{"Release/EndsNothing", "Reentrant/AfterRelease"},
	},
	"contention is any error": {
		func(f *faulty) {
			f.try = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				held, err := d.TryAcquire(ctx, key)
				if err != nil {
					return held, errors.New(err.Error())
				}
				return held, nil
			}
		},
		[]string{"Try/Held", "Try/HeldByOtherProcess", "Exclusion/TryRace"},
	},
	"nil pointer for a hold": {
		func(f *faulty) {
			f.try = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				file, err := d.At(key)
				if err != nil {
					return nil, err
				}
				return file.TryAcquire(ctx)
			}
		},
		[]string{"Try/Held"},
	},
	"one lock for all": {
		func(f *faulty) {
			f.acquire = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				return d.Acquire(ctx, lock.Key{Space: "one", Name: "lock"})
			}
			f.try = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				return d.TryAcquire(ctx, lock.Key{Space: "one", Name: "lock"})
			}
		},
		[]string{"Key/Distinct", "Key/Spaces", "Key/Odd", "Key/Empty", "Reentrant/OtherKey"},
	},
	"spaces don't count": {
		func(f *faulty) {
			f.try = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				key.Space = "locktest"
				return d.TryAcquire(ctx, key)
			}
		},
		[]string{"Key/Spaces"},
	},
	"lists nothing": {
		func(f *faulty) {
			f.list = func(lock.Dir, context.Context) iter.Seq2[lock.Status, error] {
				return func(func(lock.Status, error) bool) {}
			}
		},
		[]string{"List/Holder", "List/HolderElsewhere", "List/Waiter", "List/Many", "List/EndedContext"},
	},
	// Faults that elections and permits show, and locks alone need not.
	"grants to who waits for long": {
		func(f *faulty) {
			f.acquire = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				limited, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
				defer cancel()
				held, err := d.Acquire(limited, key)
				if err != nil && ctx.Err() == nil {
					d.Path, _ = os.MkdirTemp(d.Path, "alone-")
					return d.Acquire(ctx, key)
				}
				return held, err
			}
		},
		[]string{"Elect/LeaderKilled", "Permits/Processes"},
	},
	"one more than there are": {
		func(f *faulty) {
			f.try = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				held, err := d.TryAcquire(ctx, key)
				if err != nil && strings.HasSuffix(key.Name, "-1") {
					key.Name += "-more"
					return d.TryAcquire(ctx, key)
				}
				return held, err
			}
		},
		[]string{"Permits/Processes"},
	},
	"keeps what is given back at times": {
		func(f *faulty) {
			var n atomic.Int64
			f.holds(func(h *hold) {
				h.release = func(h lock.Hold) error {
					if n.Add(1)%7 == 0 {
						return nil
					}
					return h.Release()
				}
			})
		},
		[]string{"Permits/Processes", "Permits/GivenUp"},
	},
	"last come, first served": {
		func(f *faulty) {
			f.acquire, f.list = lastFirst, listLastFirst
		},
		[]string{"Permits/Order"},
	},
	"lists what was": {
		func(f *faulty) {
			f.list = func(d lock.Dir, ctx context.Context) iter.Seq2[lock.Status, error] {
				return func(yield func(lock.Status, error) bool) {
					for e, err := range d.List(ctx) {
						e.State = evidence.Held
						if !yield(e, err) {
							return
						}
					}
				}
			}
		},
		[]string{"List/HolderElsewhere"},
	},
	"inspects nothing": {
		func(f *faulty) {
			f.inspect = func(_ lock.Dir, _ context.Context, key lock.Key) (lock.Status, error) {
				return lock.Status{Key: key, Path: key.String(), State: evidence.Free, Evidence: evidence.NoLockFile}, nil
			}
		},
		[]string{"Inspect/Holder", "Inspect/HolderElsewhere", "Inspect/Waiter", "Inspect/Readers", "Inspect/Keys", "Inspect/EndedContext", "Elect/Observed"},
	},
	"inspects what was": {
		func(f *faulty) {
			f.inspect = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Status, error) {
				s, err := d.Inspect(ctx, key)
				s.State = evidence.Held
				return s, err
			}
		},
		[]string{"Inspect/Free", "Inspect/Holder", "Inspect/HolderElsewhere", "Inspect/Readers", "Elect/Observed"},
	},
	"readers exclude each other": {
		func(f *faulty) { f.shared, f.tryShared = f.acquire, f.try },
		[]string{"Shared/ReadersTogether", "Shared/Within", "Shared/Do"},
	},
	"readers come as they like": {
		func(f *faulty) {
			f.shared = func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
				key.Name += "-readers"
				return d.AcquireShared(ctx, key)
			}
		},
		[]string{"Shared/ReadersTogether", "Shared/ReadersAndWriters", "Shared/Timeout", "Shared/Within", "Shared/Do"},
	},
}
