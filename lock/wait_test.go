package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/internal/queue"
	"github.com/holdfast-go/holdfast/platform"
)

// TestAcquire_FIFO: goroutines of one process get the lock in the order in which
// they came, also when some of them, the first included, give up.
func TestAcquire_FIFO(t *testing.T) { // guards: S4
	f := queued(t)
	const n = 50
	quitters := []int{0, 1, 20, 49}
	held := tryHold(t, f)
	var (
		mu     sync.Mutex
		order  []int
		cancel [n]context.CancelFunc
		came   [n]<-chan outcome
	)
	for i := range n {
		var ctx context.Context
		ctx, cancel[i] = context.WithCancel(t.Context())
		defer cancel[i]()
		came[i] = begin(t, f, false, func() (*lock.FileHold, error) {
			held, err := f.Acquire(ctx)
			if err == nil {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				err = held.Release()
			}
			return held, err
		})
	}
	parkedIs(t, 1)
	for _, i := range quitters {
		cancel[i]()
		wantErr(t, get(t, came[i]).err, context.Canceled, i, "gave up with")
	}
	letGo(t, held)
	var want []int
	for i := range n {
		if !slices.Contains(quitters, i) {
			want = append(want, i)
			getHeld(t, came[i])
		}
	}
	that(t, slices.Equal(order, want), "they got in as %v", order)
	wantFree(t, f.Path)
}

// wantInKernel waits until so many wait in the kernel for locks, by its own list.
func wantInKernel(t *testing.T, want int, files ...lock.File) {
	t.Helper()
	if _, err := platform.ListKernelLocks(); err != nil {
		return // parkedIs has told
	}
	eventually(t, fmt.Sprintf("%d threads wait in the kernel", want), func() bool {
		locks := must(platform.ListKernelLocks())(t)
		n := 0
		for _, f := range files {
			id := must(platform.IdentifyFile(f.Path + ".flock"))(t)
			n += len(locks.Waiters(id))
		}
		return n == want
	})
}

// maxWaiter is what one who waits may take of memory: a goroutine's stack, which may
// have grown to twice its size, and what it has found out.
const maxWaiter = 24 << 10

// inUse returns how much memory is in use, live stacks included.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Who waits is let in before who comes, though the lock is free; TryAcquire says
// that it takes no place in the queue.
func TestAcquire_BehindTheQueue(t *testing.T) { // guards: W2
	needsTurnstile(t)
	f := queued(t)
	turnstile := must(takeTurnstile(f.Path + ".flock"))(t)
	came := beginAcquire(t, t.Context(), f)
	parkedIs(t, 1)
	held := must(f.TryAcquire(t.Context()))(t)
	noErr(t, held.Release())
	turnstile.Close()
	noErr(t, getHeld(t, came).Release())
	wantFree(t, f.Path)
}

// TestAcquire_OneWaiter: a thousand goroutines wait for a lock with one thread,
// and when all have given up nothing of them is left.
func TestAcquire_OneWaiter(t *testing.T) { // guards: S4, W1
	f := queued(t)
	const n = 1000
	other := start(t, "member", f.Path)
	other.Do("acquire", "held")
	goroutines := runtime.NumGoroutine()
	memory := inUse()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := f.Acquire(ctx)
			errs <- err
		}()
	}
	eventually(t, "all are in the queue", func() bool { return lock.QueueLen(f, false) == n })
	parkedIs(t, 1)
	wantInKernel(t, 1, f)
	if open := openUnder(t, filepath.Dir(f.Path)); len(open) > 2 {
		t.Errorf("open files: %v; want no more than those of one waiter", open)
	}
	if now := inUse(); now > memory+n*maxWaiter {
		t.Errorf("%d waiters take %d KiB of memory; want at most %d", n, (now-memory)>>10, n*maxWaiter>>10)
	}
	begin := time.Now()
	cancel()
	for range n {
		err := <-errs
		if locked := asLocked(t, err); !errors.Is(err, context.Canceled) || locked.Info == nil || locked.Info.PID != other.Cmd.Process.Pid {
			t.Fatalf("gave up with %v", err)
		}
	}
	t.Logf("%d waiters gave up in %v", n, time.Since(begin))
	// The holder is still there, and so is the one wait in the kernel.
	other.Do("release", "released")
	wantFree(t, f.Path)
	eventually(t, "all goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	other.Do("try", "held")
}

// TestAcquire_ParkedAreBounded: waiting for many locks takes no more than
// MaxParked threads; those beyond get their locks too.
func TestAcquire_ParkedAreBounded(t *testing.T) { // guards: W1
	queued(t)
	const n = 200
	dir := t.TempDir()
	var files [n]lock.File
	var holds [n]*lock.FileHold
	for i := range n {
		files[i] = lock.File{Path: filepath.Join(dir, fmt.Sprint("lock", i))}
		holds[i] = tryHold(t, files[i])
	}
	goroutines, fds := runtime.NumGoroutine(), len(openUnder(t, dir))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var giveUp, stay []<-chan outcome
	for i := range n {
		if i%2 == 0 {
			giveUp = append(giveUp, beginAcquire(t, ctx, files[i]))
		} else {
			stay = append(stay, beginAcquire(t, t.Context(), files[i]))
		}
	}
	parkedIs(t, queue.MaxParked)
	wantInKernel(t, queue.MaxParked, files[:]...)
	cancel()
	for _, came := range giveUp {
		wantErr(t, get(t, came).err, context.Canceled, "gave up with")
	}
	if n := lock.Parked(); n > queue.MaxParked {
		t.Errorf("%d threads parked", n)
	}
	for _, held := range holds {
		letGo(t, held)
	}
	for _, came := range stay {
		letGo(t, getHeld(t, came))
	}
	parkedIs(t, 0)
	for _, f := range files {
		if err := peek(f.Path + ".flock"); err != nil {
			t.Errorf("%s: %v; want it free", f.Path, err)
		}
		isAbsent(t, f.Path)
	}
	if open := openUnder(t, dir); len(open) != 0 {
		t.Errorf("still open: %d, of %d", len(open), fds)
	}
	eventually(t, "all goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// TestAcquire_AdoptsWait: who comes after one who gave up takes over their place
// in the kernel's queue, before a process that came in between.
func TestAcquire_AdoptsWait(t *testing.T) { // guards: W1
	f := queued(t)
	held := tryHold(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := beginAcquire(t, ctx, f)
	parkedIs(t, 1)
	other := start(t, "member", f.Path)
	other.Do("acquire", "waiting")
	cancel()
	if err := get(t, first).err; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if n := lock.Parked(); n != 1 {
		t.Fatalf("%d threads parked, want the one that was left", n)
	}
	second := beginAcquire(t, t.Context(), f)
	letGo(t, held)
	held = getHeld(t, second)
	parkedIs(t, 0)
	letGo(t, held)
	other.Expect("held")
	other.Do("release", "released")
	wantFree(t, f.Path)
}

// TestAcquire_StressOneProcess: two oracles say that nobody was ever in with
// another, while some give up.
func TestAcquire_StressOneProcess(t *testing.T) {
	f := queued(t)
	var all intervals
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 60 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+j)%4 == 0 {
					go cancel()
				}
				held, err := f.Acquire(ctx)
				cancel()
				if err != nil {
					wantErr(t, err, context.Canceled)
					continue
				}
				all.alone(t, f.Path)
				noErr(t, held.Release())
			}
		})
	}
	wg.Wait()
	all.check(t)
	wantFree(t, f.Path)
}

// A wait survives any number of replacements of the sibling.
func TestAcquire_SiblingReplacedOften(t *testing.T) { // guards: B5, W5
	needsKernelList(t)
	f := queued(t)
	for _, shared := range []bool{false, true} {
		holder := lockSibling(t, f)
		acquire := inMode(f, shared)
		came := begin(t, f, shared, func() (*lock.FileHold, error) { return acquire(t.Context()) })
		for range 12 {
			waitedFor(t, f)
			next := replaceSibling(t, f)
			check(t, holder.Close())
			holder = next
		}
		waitedFor(t, f)
		check(t, holder.Close())
		letGo(t, getHeld(t, came))
		wantFree(t, f.Path)
	}
}

func lockSibling(t *testing.T, f lock.File) *platform.File {
	t.Helper()
	return must(lockFile(f.Path+".flock", platform.Exclusive))(t)
}

// replaceSibling puts another sibling, locked, in the place of the one that there is, by one
// act, so that nobody gets in between.
func replaceSibling(t *testing.T, f lock.File) *platform.File {
	t.Helper()
	k, err := lockFile(f.Path+".new", platform.Exclusive)
	if err == nil {
		err = os.Rename(f.Path+".new", f.Path+".flock")
	}
	check(t, err)
	return k
}

// waitedFor waits until a thread waits in the kernel for the sibling at the path.
func waitedFor(t *testing.T, f lock.File) {
	t.Helper()
	id := must(platform.IdentifyFile(f.Path + ".flock"))(t)
	eventually(t, "a wait for the sibling", func() bool {
		locks := must(platform.ListKernelLocks())(t)
		return len(locks.Waiters(id)) > 0
	})
}

// TestAcquire_MovedBeforeParking: what is to be waited for goes, or is replaced, in the last
// instant before the wait. Whoever waits begins again with what is there then, and is not
// told that somebody has the lock.
func TestAcquire_MovedBeforeParking(t *testing.T) { // guards: W5
	for name, move := range map[string]func(t *testing.T, path string){
		"sibling gone": removeSibling,
		"sibling replaced": func(t *testing.T, path string) {
			noErr(t, errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path+".flock")))
		},
		"lock file gone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			f := queued(t)
			holder := tryHold(t, f)
			if move == nil {
				removeSibling(t, f.Path)
			}
			moved := false
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			held, err := f.Park(func(step string) {
				if step != lock.StepParks || moved {
					return
				}
				moved = true
				letGo(t, holder)
				if move != nil {
					move(t, f.Path)
				}
			}).Acquire(ctx)
			if err != nil || !moved {
				t.Fatalf("moved: %v; %v", moved, err)
			}
			letGo(t, held)
			wantFree(t, f.Path)
		})
	}
}
