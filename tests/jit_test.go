package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/repolock"
	"github.com/holdfast-go/holdfast/lock/settings"
	"github.com/holdfast-go/holdfast/platform"
)

// The tests that jit lists, by its names. Those on retries are in lock/settings.

// jitLock is a process that takes a lock, exclusive or shared, says "held", and
// lets go of it when its input ends, saying "released". It waits for the lock.
func jitLock(args []string) error {
	f := lock.File{Path: args[0], Cmd: "jit"}
	acquire := f.Acquire
	if args[1] == "shared" {
		acquire = sharing(f).Acquire
	}
	held, err := acquire(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
	if err := held.Release(); err != nil {
		return err
	}
	fmt.Println("released")
	return nil
}

// jitWorker is a process that does one of the store's jobs in several goroutines:
// "create FIRST COUNT", "count FILES", "read".
func jitWorker(args []string) error {
	store := jitStore(args[0])
	switch args[1] {
	case "create":
		first, _ := strconv.Atoi(args[2])
		count, _ := strconv.Atoi(args[3])
		return atOnce(count, func(i int) error { return store.create(fmt.Sprint("issue", first+i)) })
	case "update":
		return atOnce(8, func(int) error { return store.raise("shared") })
	case "slow":
		return store.change(args[2], func(n int) (int, error) {
			fmt.Println("updating")
			io.Copy(io.Discard, os.Stdin)
			return n + 1, nil
		})
	case "read":
		return jitReader(store)
	}
	return errors.New("what?")
}

func atOnce(n int, job func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- job(i) }()
	}
	var all []error
	for range n {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// ends checks that a process that has nothing left to do ends well.
func ends(t *testing.T, c *testkit.Child) {
	t.Helper()
	noErr(t, c.End(), "a process failed")
}

func jitPath(t *testing.T) string { return filepath.Join(t.TempDir(), "index.json.lock") }

// refusedFor checks that a lock is not had, and returns who has it.
func refusedFor(t *testing.T, acquire func(context.Context) (*lock.FileHold, error)) *lock.LockedError {
	t.Helper()
	held, err := acquire(t.Context())
	var locked *lock.LockedError
	if err == nil {
		t.Fatal("there is a second holder: ", held.Release())
	} else if !errors.As(err, &locked) {
		t.Fatal(err)
	}
	return locked
}

func had(t *testing.T, acquire func(context.Context) (*lock.FileHold, error)) *lock.FileHold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return must(acquire(ctx))(t)
}

func let(t *testing.T, held *lock.FileHold) {
	t.Helper()
	noErr(t, held.Release())
}

// TestJit_ExclusiveLockPreventsConcurrentWrites: the second writer gets in when
// the first has left, and no earlier: thread or process.
func TestJit_ExclusiveLockPreventsConcurrentWrites(t *testing.T) {
	path := jitPath(t)
	f := lock.File{Path: path}
	first := testkit.Start(t, "jit-lock", path, "exclusive")
	first.Expect("held")
	if l := refusedFor(t, f.TryAcquire); l.Info == nil || l.Info.PID != first.Cmd.Process.Pid || l.State != evidence.Held {
		t.Errorf("held by %+v", l.Info)
	}
	ends(t, first)
	held := had(t, f.Acquire)
	refusedFor(t, f.TryAcquire) // another thread
	let(t, held)

	// All together: a counter that only exclusion keeps right.
	var inside, total atomic.Int32
	plain := 0
	err := atOnce(8, func(int) error {
		for range 50 {
			err := f.Do(t.Context(), func(context.Context, *lock.FileHold) error {
				if n := inside.Add(1); n != 1 {
					return fmt.Errorf("%d are in", n)
				}
				plain++
				total.Add(1)
				inside.Add(-1)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || plain != 400 || total.Load() != 400 {
		t.Errorf("%d of %d writes are there: %v", plain, total.Load(), err)
	}
}

func needsReaders(t *testing.T) {
	t.Helper()
	if !platform.HasTurnstile() {
		t.Skip("shared is exclusive on this system")
	}
}

// TestJit_SharedLocksAllowConcurrentReads: four processes and two threads are in at
// the same time, as none leaves before all are there.
func TestJit_SharedLocksAllowConcurrentReads(t *testing.T) {
	needsReaders(t)
	path := jitPath(t)
	var all []*testkit.Child
	for range 4 {
		all = append(all, testkit.Start(t, "jit-lock", path, "shared"))
	}
	for _, p := range all {
		p.Expect("held")
	}
	f := lock.File{Path: path}
	one, two := had(t, sharing(f).Acquire), had(t, sharing(f).Acquire)
	refusedFor(t, f.TryAcquire)
	let(t, one)
	for _, p := range all {
		ends(t, p)
	}
	refusedFor(t, f.TryAcquire) // one is still there
	let(t, two)
	let(t, had(t, f.TryAcquire))
}

// TestJit_ExclusiveLockBlocksSharedLocks: in both directions.
func TestJit_ExclusiveLockBlocksSharedLocks(t *testing.T) {
	path := jitPath(t)
	f := lock.File{Path: path}
	for mode, others := range map[string]func(context.Context) (*lock.FileHold, error){"exclusive": sharing(f).TryAcquire, "shared": f.TryAcquire} {
		holder := testkit.Start(t, "jit-lock", path, mode)
		holder.Expect("held")
		refusedFor(t, others)
		waiter := testkit.Start(t, "jit-lock", path, map[string]string{"exclusive": "shared", "shared": "exclusive"}[mode])
		ends(t, holder)
		waiter.Expect("held")
		ends(t, waiter)
		let(t, had(t, others))
	}
}

// TestJit_LockReleasedOnDrop: what is dropped in jit's language is the end of a
// block here; it may end by return or error.
func TestJit_LockReleasedOnDrop(t *testing.T) {
	path := jitPath(t)
	f := lock.File{Path: path}
	failure := errors.New("failure")
	for _, want := range []error{nil, failure} {
		err := f.Do(t.Context(), func(context.Context, *lock.FileHold) error {
			refusedFor(t, f.TryAcquire)
			return want
		})
		equal(t, err, want, "Do")
		let(t, had(t, f.TryAcquire))
		other := testkit.Start(t, "jit-lock", path, "exclusive")
		other.Expect("held")
		ends(t, other)
	}
}

// TestJit_LockReleasedOnPanic is "lock released on panic/early return (RAII)".
func TestJit_LockReleasedOnPanic(t *testing.T) {
	path := jitPath(t)
	f := lock.File{Path: path}
	for name, block := range map[string]func(fn func(context.Context) error){
		"Do": func(fn func(context.Context) error) {
			_ = f.Do(t.Context(), func(ctx context.Context, _ *lock.FileHold) error { return fn(ctx) })
		},
		"TryDo": func(fn func(context.Context) error) {
			_, _ = f.TryDo(t.Context(), func(ctx context.Context, _ *lock.FileHold) error { return fn(ctx) })
		},
		"Update": func(fn func(context.Context) error) {
			_ = lock.Update(t.Context(), strings.TrimSuffix(path, ".lock"), func([]byte) ([]byte, error) { return []byte{}, fn(t.Context()) })
		},
	} {
		value := new(int)
		func() {
			defer func() {
				if got := recover(); got != value {
					t.Errorf("%s: recovered %v, want the very value", name, got)
				}
			}()
			block(func(context.Context) error {
				refusedFor(t, f.TryAcquire)
				panic(value)
			})
		}()
		let(t, had(t, f.TryAcquire))
	}
	that(t, !exists(strings.TrimSuffix(path, ".lock")), "a change that panicked was made")
}

// TestJit_TimeoutOnLockContention: with jit's message.
func TestJit_TimeoutOnLockContention(t *testing.T) {
	path := jitPath(t)
	holder := testkit.Start(t, "jit-lock", path, "exclusive")
	holder.Expect("held")
	t.Setenv("JIT_LOCK_TIMEOUT", "0.05")
	s := must(settings.FromEnv("JIT"))(t)
	locked := refusedFor(t, func(ctx context.Context) (*lock.FileHold, error) {
		return lock.File{Path: path}.AcquireWithin(ctx, s.Timeout)
	})
	that(t, errors.Is(locked, lock.ErrTimeout) && locked.Waited > 0, "after %s: %v", locked.Waited, locked)
	that(t, locked.Info != nil && locked.Info.PID == holder.Cmd.Process.Pid, "the holder is %+v", locked.Info)
	message := repolock.UserMessage(locked, "JIT")
	for _, want := range []string{"Lock timeout: could not acquire lock on " + path + " after ", "Try:\n  1. ", "\n  2. ", "\n  3. ", "JIT_LOCK_TIMEOUT="} {
		that(t, strings.Contains(message, want), "%q is missing in\n%s", want, message)
	}
	ends(t, holder)
	let(t, had(t, lock.File{Path: path}.Acquire))
}

// TestJit_ProcessCrashReleasesLock: killed, with readers and writers waiting.
func TestJit_ProcessCrashReleasesLock(t *testing.T) {
	for _, mode := range []string{"exclusive", "shared"} {
		path := jitPath(t)
		holder := testkit.Start(t, "jit-lock", path, mode)
		holder.Expect("held")
		f := lock.File{Path: path, StaleAfter: -1} // not by age
		refusedFor(t, f.TryAcquire)
		waiter := testkit.Start(t, "jit-lock", path, "exclusive")
		holder.Cmd.Process.Kill()
		waiter.Expect("held")
		ends(t, waiter)
		let(t, had(t, f.Acquire))
	}
}
