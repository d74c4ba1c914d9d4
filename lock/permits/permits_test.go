package permits_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/permits"
)

func TestMain(m *testing.M) {
	testkit.Main(m, func(role string, args []string) {
		if os.Getenv(dyingVar) != "" { // what one has started
			role = "below"
		}
		roles[role](args[0])
	})
}

var (
	check   = testkit.Check
	that    = testkit.That
	errOf   = testkit.ErrOf
	wantErr = testkit.WantErr
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

var roles = map[string]func(dir string){"below": below}

const dyingVar = "HOLDFAST_PERMITS_DYING"

var key = lock.Key{Space: "test", Name: "slots"}

// wantFree checks that so many permits can be had, and no more.
func wantFree(t *testing.T, p *permits.Pool, n int) {
	t.Helper()
	var all []*permits.Permit
	for range n {
		held := must(p.TryAcquire(t.Context()))(t)
		all = append(all, held)
	}
	wantNone(t, p)
	for _, h := range all {
		check(t, h.Release())
	}
}

func wantNone(t *testing.T, p *permits.Pool) {
	t.Helper()
	held, err := p.TryAcquire(t.Context())
	var locked *lock.LockedError
	if held != nil || !errors.As(err, &locked) || errors.Is(err, lock.ErrTimeout) || locked.Waited != 0 {
		t.Fatalf("%v, %v; want a *LockedError that has not waited", held, err)
	}
}

func take(t *testing.T, p *permits.Pool) *permits.Permit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	return must(p.Acquire(ctx))(t)
}

func begin(t *testing.T, ctx context.Context, p *permits.Pool) <-chan *permits.Permit {
	came := make(chan *permits.Permit, 1)
	go func() {
		held, err := p.Acquire(ctx)
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		came <- held
	}()
	return came
}

// untilAtGate waits until somebody waits for all permits of a folder.
func untilAtGate(t *testing.T, dir lock.Dir, n int) {
	t.Helper()
	testkit.Eventually(t, "somebody waits for a permit", func() bool {
		waiting := 0
		for e, err := range dir.List(t.Context()) {
			check(t, err)
			if e.Key != key {
				waiting += len(e.Waiters)
			}
		}
		return waiting == n
	})
}

// TestFirstFree: who waits has whichever comes free, and leaves the others alone.
func TestFirstFree(t *testing.T) {
	testkit.NeedsKernelList(t)
	dir := lock.Dir{Path: t.TempDir()}
	p := permits.New(dir, key, 3)
	held := []*permits.Permit{take(t, p), take(t, p), take(t, p)}
	for _, i := range []int{1, 0, 2} {
		came := begin(t, t.Context(), p)
		untilAtGate(t, dir, 3)
		wantNone(t, p)
		number := held[i].Number()
		check(t, held[i].Release())
		if held[i] = <-came; held[i] == nil || held[i].Number() != number {
			t.Fatalf("%v, want permit %d", held[i], number)
		}
	}
	for _, h := range held {
		check(t, h.Release())
	}
	wantFree(t, p, 3)
}

// tardy grants a lock to who has called off the wait for it.
type tardy struct{ lock.Dir }

func (l tardy) Acquire(ctx context.Context, k lock.Key) (lock.Hold, error) {
	return l.Dir.Acquire(context.WithoutCancel(ctx), k)
}

// TestTryWaitsForNothing: a try asks for what is free at once, and begins no wait that may take
// longer than it has; who has the gate itself is told.
func TestTryWaitsForNothing(t *testing.T) {
	calls := &counting{Dir: lock.Dir{Path: t.TempDir()}}
	p := permits.New(calls, key, 1)
	wantFree(t, p, 1)
	gate := must(calls.TryAcquire(t.Context(), key))(t)
	wantErr(t, errOf(p.TryAcquire(gate.Context(t.Context()))), lock.ErrReentrant, "at the gate")
	check(t, gate.Release())
	that(t, calls.waits == 0, "it has waited %d times", calls.waits)
}

// TestTwoAtOnce: of two permits that come at once, one is given back.
func TestTwoAtOnce(t *testing.T) {
	testkit.NeedsKernelList(t)
	dir := lock.Dir{Path: t.TempDir()}
	p := permits.New(tardy{dir}, key, 2)
	a, b := take(t, p), take(t, p)
	came := begin(t, t.Context(), p)
	untilAtGate(t, dir, 2)
	check(t, a.Release())
	check(t, b.Release())
	check(t, (<-came).Release())
	wantFree(t, p, 2)
}

// TestCancel: who gives up, at the gate or behind it, leaves nothing, and keeps nobody out.
func TestCancel(t *testing.T) {
	testkit.NeedsKernelList(t)
	dir := lock.Dir{Path: t.TempDir()}
	p := permits.New(dir, key, 2)
	a, b := take(t, p), take(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	atGate := begin(t, ctx, p)
	untilAtGate(t, dir, 2)
	for limit := 20 * time.Millisecond; ; limit *= 2 { // a busy machine may not even begin in that
		short, stop := context.WithTimeout(t.Context(), limit)
		_, err := p.Acquire(short)
		stop()
		var locked *lock.LockedError
		if errors.As(err, &locked) && errors.Is(err, lock.ErrTimeout) {
			break
		} else if err == nil || limit > testkit.Patience {
			t.Fatalf("error is %v", err)
		}
	}
	cancel()
	if h := <-atGate; h != nil {
		t.Error("acquired")
	}
	check(t, a.Release())
	check(t, take(t, p).Release())
	check(t, b.Release())
	wantFree(t, p, 2)
}

// TestResize: who waits has one of the new ones; those above the number are not taken again.
func TestResize(t *testing.T) {
	testkit.NeedsKernelList(t)
	dir := lock.Dir{Path: t.TempDir()}
	p := permits.New(dir, key, 1)
	one := take(t, p)
	came := begin(t, t.Context(), p)
	untilAtGate(t, dir, 1)
	p.Resize(2)
	two := <-came
	if two == nil || two.Number() != 2 {
		t.Fatalf("%v, want permit 2", two)
	}
	p.Resize(1)
	check(t, two.Release())
	wantNone(t, p)
	check(t, one.Release())
	wantFree(t, p, 1)
	for _, n := range []int{0, -1} {
		p.Resize(n)
		wantErr(t, errOf(p.Acquire(t.Context())), lock.ErrInvalidName, n, "permits")
	}
}

// TestSecond: one who has a permit gets no second one by its context, and may have another
// pool's.
func TestSecond(t *testing.T) {
	dir := lock.Dir{Path: t.TempDir()}
	p := permits.New(dir, key, 4)
	err := p.Do(t.Context(), func(ctx context.Context) error {
		for _, q := range []*permits.Pool{p, permits.New(dir, key, 4)} {
			wantErr(t, errOf(q.Acquire(ctx)), lock.ErrReentrant)
			wantErr(t, errOf(q.TryAcquire(ctx)), lock.ErrReentrant)
		}
		equal(t, lock.HoldOf(ctx).(*permits.Permit).Number(), 1, "permit")
		return permits.New(dir, lock.Key{Space: "test", Name: "other"}, 1).Do(ctx, func(context.Context) error { return nil })
	})
	check(t, err)
	held := take(t, p)
	ctx := held.Context(t.Context())
	check(t, held.Release())
	again := must(p.Acquire(ctx))(t)
	check(t, again.Release())
	wantFree(t, p, 4)
}

// TestLost: a permit that was taken away is a lost lock.
func TestLost(t *testing.T) {
	p := permits.New(lock.Dir{Path: t.TempDir()}, key, 1)
	err := p.Do(t.Context(), func(ctx context.Context) error {
		return os.Remove(lock.HoldOf(ctx).(*permits.Permit).Hold.(*lock.FileHold).Path())
	})
	wantErr(t, err, lock.ErrLost)
	wantFree(t, p, 1)
}

// Four builds at a time, of however many processes.
func Example() {
	dir, _ := os.MkdirTemp("", "slots-")
	defer os.RemoveAll(dir)
	slots := permits.New(lock.Dir{Path: dir}, lock.Key{Space: "build", Name: "slots"}, 4)
	err := slots.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("building, beside at most three")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: building, beside at most three
}

// TestKey: a permit is known by its key, and nothing else is taken for one.
func TestKey(t *testing.T) {
	for _, number := range []int{1, 9, 10, 1000} {
		if got := permits.Number(key, permits.Key(key, number)); got != number {
			t.Errorf("permit %d is %d", number, got)
		}
	}
	for _, name := range []string{"", "slots", "slots.permit-", "slots.permit-0", "slots.permit--1", "slots.permit-01", "slots.permit-+1", "slots.permit-1.lock", "other.permit-1", "1"} {
		if got := permits.Number(key, lock.Key{Space: key.Space, Name: name}); got != 0 {
			t.Errorf("%q is permit %d", name, got)
		}
	}
	equal(t, permits.Number(key, lock.Key{Space: "other", Name: "slots.permit-1"}), 0, "of another space: permit")
}

// TestAbove: a process below one that has a permit gets none, nor waits at the gate, and may
// have another pool's.
func TestAbove(t *testing.T) {
	dir := lock.Dir{Path: t.TempDir()}
	p := permits.New(dir, key, 2)
	first, held := take(t, p), take(t, p) // the last one: each of them is looked at
	check(t, first.Release())
	below := testkit.Command(t, "below", dir.Path)
	below.Env = held.Hold.(*lock.FileHold).Environ(below.Env)
	gate, err := dir.Acquire(t.Context(), key) // by which it would wait
	check(t, err)
	child := testkit.StartCommand(t, below)
	child.Expect("refused refused other")
	check(t, gate.Release())
	check(t, held.Release())
	child.Do("again", "had had other")
	wantFree(t, p, 2)
}

// below is a process under a hold of a permit.
func below(dir string) {
	for in := bufio.NewScanner(os.Stdin); ; {
		pool, said := permits.New(lock.Dir{Path: dir}, key, 2), []any{}
		for _, acquire := range []func(context.Context) (*permits.Permit, error){pool.Acquire, pool.TryAcquire} {
			switch held, err := acquire(context.Background()); {
			case err == nil:
				said = append(said, "had")
				_ = held.Release()
			case errors.Is(err, lock.ErrReentrant):
				said = append(said, "refused")
			default:
				said = append(said, err)
			}
		}
		held, err := permits.New(lock.Dir{Path: dir}, lock.Key{Space: "test", Name: "other"}, 1).Acquire(context.Background())
		if err == nil {
			err = held.Release()
			said = append(said, "other")
		}
		fmt.Println(append(said, err)[:3]...)
		if !in.Scan() {
			return
		}
	}
}
