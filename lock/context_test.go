package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

var acquirers = map[string]func(lock.File, context.Context) (*lock.FileHold, error){
	"Acquire":          lock.File.Acquire,
	"TryAcquire":       lock.File.TryAcquire,
	"AcquireShared":    func(f lock.File, ctx context.Context) (*lock.FileHold, error) { return sharing(f).Acquire(ctx) },
	"TryAcquireShared": func(f lock.File, ctx context.Context) (*lock.FileHold, error) { return sharing(f).TryAcquire(ctx) },
	"AcquireSharedWithin": func(f lock.File, ctx context.Context) (*lock.FileHold, error) {
		return sharing(f).AcquireWithin(ctx, patience)
	},
}

// inMode are the two ways to wait for a lock.
func inMode(f lock.File, shared bool) func(context.Context) (*lock.FileHold, error) {
	if shared {
		return sharing(f).Acquire
	}
	return f.Acquire
}

func wantReentrant(t *testing.T, ctx context.Context, f lock.File, outer *lock.FileHold) {
	t.Helper()
	before := getClaim(t, outer.Path())
	for name, acquire := range acquirers {
		promptly(t, name, func() {
			held, err := acquire(f, ctx)
			var locked *lock.LockedError
			if held != nil || !errors.Is(err, lock.ErrReentrant) || !errors.As(err, &locked) {
				t.Errorf("%s: %v, %v; want ErrReentrant", name, held, err)
			} else if locked.Info == nil || locked.Info.Nonce != outer.Info().Nonce {
				t.Errorf("%s: the holder is %+v, want us", name, locked.Info)
			}
		})
	}
	if after := getClaim(t, outer.Path()); after.Nonce != before.Nonce || ctx.Err() != nil {
		t.Errorf("the outer hold was touched: %+v, %v", after, context.Cause(ctx))
	}
	equal(t, lock.QueueLen(f, false), 0, "in the queue")
}

// TestReentrant: acquiring again under a hold's context is refused at once,
// whatever the mode of either, and by any name of the folder.
func TestReentrant(t *testing.T) { // guards: W11
	for name, acquire := range acquirers {
		t.Run(name, func(t *testing.T) {
			f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
			held := must(acquire(f, t.Context()))(t)
			type key struct{}
			ctx, cancel := context.WithCancel(context.WithValue(held.Context(t.Context()), key{}, 1))
			defer cancel()
			wantReentrant(t, ctx, f, held)

			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(filepath.Dir(f.Path), link); err == nil {
				wantReentrant(t, ctx, lock.File{Path: filepath.Join(link, ".lock")}, held)
			}
			// Without that context it is contention.
			if mode := held.Info().Mode; mode == "" {
				_, err := f.TryAcquire(t.Context())
				if asLocked(t, err); errors.Is(err, lock.ErrReentrant) {
					t.Errorf("under another context: %v", err)
				}
			}
			letGo(t, held)
		})
	}
}

// TestReentrant_OtherCase: in a folder that ignores case, a lock has several names. Here
// they are two links to one file; in another file of nearly the same name is another lock.
func TestReentrant_OtherCase(t *testing.T) {
	dir := t.TempDir()
	lower, upper := lock.File{Path: filepath.Join(dir, "a.lock")}, lock.File{Path: filepath.Join(dir, "A.lock")}
	held := tryHold(t, lower)
	ctx := held.Context(t.Context())
	if _, err := os.Lstat(upper.Path); err == nil { // such a folder
		wantReentrant(t, ctx, upper, held)
		letGo(t, held)
		return
	}
	other, err := upper.TryAcquire(ctx)
	check(t, err, "another lock")
	letGo(t, other)
	if err := os.Link(lower.Path, upper.Path); err != nil {
		t.Skip("needs hard links, to give a file two names: ", err)
	}
	wantReentrant(t, ctx, upper, held)
	check(t, os.Remove(upper.Path))
	letGo(t, held)
}

// TestReentrant_WhileReleased: a hold's context may be used while the hold is released. That
// they share nothing unguarded is for the race detector to say.
func TestReentrant_WhileReleased(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}.WithoutKernelLock()
	held := tryHold(t, f)
	ctx, tried := held.Context(t.Context()), make(chan error)
	go func() {
		inner, err := f.TryAcquire(ctx)
		if err == nil {
			err = inner.Release()
		}
		tried <- err
	}()
	letGo(t, held)
	if err := <-tried; err != nil && !errors.Is(err, lock.ErrReentrant) {
		t.Error(err)
	}
}

// TestDo: File's own forms hold the lock, and give a context that carries the hold. What
// else holds of them is in package locktest.
func TestDo(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	mine := errors.New("mine")
	in := func(ctx context.Context, _ *lock.FileHold) error {
		if _, err := f.TryAcquire(ctx); !errors.Is(err, lock.ErrReentrant) || getClaim(t, f.Path).PID != os.Getpid() {
			t.Errorf("the lock, or its context, is not ours: %v", err)
		}
		return mine
	}
	equal(t, f.Do(t.Context(), in), mine)
	if acquired, err := f.TryDo(t.Context(), in); !acquired || err != mine {
		t.Error(acquired, err)
	}
	isAbsent(t, f.Path)
}

// TestTryDo_Skips: whoever else has the lock, we ourselves included, the function
// is skipped without an error.
func TestTryDo_Skips(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	held := tryHold(t, f)
	for name, ctx := range map[string]context.Context{"another": t.Context(), "ourselves": held.Context(t.Context())} {
		acquired, err := f.TryDo(ctx, func(context.Context, *lock.FileHold) error {
			t.Errorf("%s: the function was called", name)
			return nil
		})
		that(t, !acquired && err == nil, "%s: %v, %v; want false, nil", name, acquired, err)
	}
	err := f.Do(held.Context(t.Context()), func(context.Context, *lock.FileHold) error { t.Error("called"); return nil })
	wantErr(t, err, lock.ErrReentrant, "Do under its own lock")
	letGo(t, held)
	// What is not contention is no reason to skip.
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if acquired, err := f.TryDo(cancelled, func(context.Context, *lock.FileHold) error { return nil }); acquired || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v, %v", acquired, err)
	}
}

// TestDo_LostMeanwhile: work under a lock that is lost is told of it, and not taken for done.
func TestDo_LostMeanwhile(t *testing.T) { // guards: T2
	f := fallbackFile(t)
	f.StaleAfter = 30 * time.Millisecond
	err := f.Do(t.Context(), func(ctx context.Context, _ *lock.FileHold) error {
		removeFile(t, f.Path)
		promptly(t, "the loss", func() { <-ctx.Done() })
		wantErr(t, context.Cause(ctx), lock.ErrLost, "cause")
		return nil
	})
	wantErr(t, err, lock.ErrLost, "Do")
}

// TestHoldOf: Do's context leads to the hold, for its fence.
func TestHoldOf(t *testing.T) { // guards: W11
	if h := lock.HoldOf(t.Context()); h != nil {
		t.Error("a hold out of nothing:", h)
	}
	d := lock.Dir{Path: t.TempDir()}
	err := lock.Do(t.Context(), d, lock.Key{Space: "s", Name: "outer"}, func(ctx context.Context, outer lock.Hold) error {
		equal(t, outer, lock.HoldOf(ctx), "not the hold that fn was given")
		if fence, err := outer.Fence(); err != nil || fence <= 0 {
			t.Errorf("fence %d (%v)", fence, err)
		}
		return lock.Do(ctx, d, lock.Key{Space: "s", Name: "inner"}, func(ctx context.Context, _ lock.Hold) error {
			if inner := lock.HoldOf(ctx); inner == nil || inner == outer {
				t.Error("not the last one")
			}
			return nil
		})
	})
	noErr(t, err)
}
