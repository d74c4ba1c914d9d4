package locktest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

// brokenVar names the fault of the engine, in the process that TestBroken runs in, and
// in its children.
const brokenVar = "HOLDFAST_LOCKTEST_BROKEN"

// faulty is a Dir with a fault.
type faulty struct {
	lock.Dir
	acquire, try, shared, tryShared func(lock.Dir, context.Context, lock.Key) (lock.Hold, error)
	inspect                         func(lock.Dir, context.Context, lock.Key) (lock.Status, error)
	list                            func(lock.Dir, context.Context) iter.Seq2[lock.Status, error]
}

func (f faulty) Acquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return f.acquire(f.Dir, ctx, key)
}
func (f faulty) TryAcquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return f.try(f.Dir, ctx, key)
}
func (f faulty) AcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return f.shared(f.Dir, ctx, key)
}
func (f faulty) TryAcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return f.tryShared(f.Dir, ctx, key)
}
func (f faulty) Inspect(ctx context.Context, key lock.Key) (lock.Status, error) {
	return f.inspect(f.Dir, ctx, key)
}
func (f faulty) List(ctx context.Context) iter.Seq2[lock.Status, error] { return f.list(f.Dir, ctx) }

// hold is a Hold with a fault.
type hold struct {
	lock.Hold
	release func(lock.Hold) error
	context func(lock.Hold, context.Context) context.Context
	fence   func(lock.Hold) (int64, error)
}

func (h hold) Release() error                                 { return h.release(h.Hold) }
func (h hold) Context(parent context.Context) context.Context { return h.context(h.Hold, parent) }
func (h hold) Fence() (int64, error)                          { return h.fence(h.Hold) }

// holds gives every hold a fault.
func (f *faulty) holds(fault func(*hold)) {
	wrap := func(acquire func(lock.Dir, context.Context, lock.Key) (lock.Hold, error)) func(lock.Dir, context.Context, lock.Key) (lock.Hold, error) {
		return func(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
			held, err := acquire(d, ctx, key)
			if err != nil {
				return nil, err
			}
			h := hold{held, lock.Hold.Release, lock.Hold.Context, lock.Hold.Fence}
			fault(&h)
			return h, nil
		}
	}
	f.acquire, f.try = wrap(f.acquire), wrap(f.try)
}

// acquireExisting is a lock as shell scripts have it: whoever creates the file. Nobody
// asks whether its creator lives.
func acquireExisting(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
	for {
		held, err := tryExisting(d, ctx, key)
		if err == nil {
			return held, nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func tryExisting(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
	path := filepath.Join(d.Path, key.Name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, &lock.LockedError{Status: lock.Status{Path: path}}
	} else if err != nil {
		return nil, err
	}
	f.Close()
	inner, err := d.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return hold{inner, func(h lock.Hold) error { return errors.Join(h.Release(), os.Remove(path)) }, lock.Hold.Context, lock.Hold.Fence}, nil
}

// lastFirst serves whoever came last: the others look on. Those who wait have a file each, whose
// name is when they came.
func lastFirst(d lock.Dir, ctx context.Context, key lock.Key) (lock.Hold, error) {
	line := filepath.Join(d.Path, "line", key.Name)
	if err := os.MkdirAll(line, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(line, fmt.Sprintf("%020d-", time.Now().UnixNano()))
	if err != nil {
		return nil, err
	}
	f.Close()
	defer os.Remove(f.Name())
	for {
		all, err := os.ReadDir(line)
		if err != nil {
			return nil, err
		}
		if last := all[len(all)-1].Name(); last == filepath.Base(f.Name()) {
			held, err := d.TryAcquire(ctx, key)
			var locked *lock.LockedError
			if err == nil || !errors.As(err, &locked) {
				return held, err
			}
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, &lock.LockedError{Status: lock.Status{Path: line}, Cause: ctx.Err()}
		}
	}
}

// listLastFirst shows those who wait, too, save the one who has it.
func listLastFirst(d lock.Dir, ctx context.Context) iter.Seq2[lock.Status, error] {
	return func(yield func(lock.Status, error) bool) {
		for l, err := range d.List(ctx) {
			files, _ := filepath.Glob(filepath.Join(d.Path, "line", l.Key.Name, "*"))
			l.Waiters = append(l.Waiters, make([]lock.Process, len(files))...)
			if !yield(l, err) {
				return
			}
		}
	}
}

func openBroken(_ context.Context, address string) (lock.Locker, error) {
	f := &faulty{lock.Dir{Path: address}, lock.Dir.Acquire, lock.Dir.TryAcquire, lock.Dir.AcquireShared, lock.Dir.TryAcquireShared, lock.Dir.Inspect, lock.Dir.List}
	faults[os.Getenv(brokenVar)].fault(f)
	return f, nil
}

// TestBroken is run by TestSuiteFails.
func TestBroken(t *testing.T) {
	if os.Getenv(brokenVar) == "" {
		return // as a part that nobody has given it
	}
	e := dirEngine
	e.OpenAt, e.Patience = openBroken, time.Second
	if runs := flag.Lookup("test.run").Value.String(); strings.Contains(runs, "Elect") || strings.Contains(runs, "Permits") {
		e.Patience = 5 * time.Second // there it is found out by what many processes come to
	}
	e.Lose = func(t *testing.T, _ string, key lock.Key, held lock.Hold) {
		if h, ok := held.(hold); ok {
			held = h.Hold
		}
		dirEngine.Lose(t, "", key, held)
	}
	locktest.Run(t, e)
}

// TestSuiteFails: every fault is found out, by each of the subtests that are there for it.
func TestSuiteFails(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range f.found {
				group, test, _ := strings.Cut(found, "/")
				if dirEngine.NoShared && group == "Shared" || dirEngine.HidesWaiters && (found == "List/Waiter" || found == "Permits/Order") {
					continue // the suite can't look at that here
				}
				// What many processes come to, on a machine that is busy, is found out by chance.
				var out []byte
				for try, finds := 1, false; !finds; try++ {
					cmd := exec.Command(exe, "-test.v", "-test.timeout=1m", "-test.run=^TestBroken$/^"+group+"$/^"+test+"$")
					cmd.Env = append(os.Environ(), brokenVar+"="+name)
					out, err = cmd.CombinedOutput()
					var exit *exec.ExitError
					finds = errors.As(err, &exit) && strings.Contains(string(out), "--- FAIL: TestBroken/"+found+" ")
					if byChance := strings.Contains(found, "Process") || strings.Contains(found, "Killed"); !finds && (!byChance || try == 5) {
						t.Errorf("%s does not find it out (%v):\n%s", found, err, out)
						break
					}
				}
				if strings.Contains(string(out), "panic:") {
					t.Errorf("%s panics:\n%s", found, out)
				}
			}
		})
	}
}
