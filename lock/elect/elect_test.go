package elect_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/elect"
)

func TestMain(m *testing.M) { testkit.Main(m, func(string, []string) {}) }

var key = lock.Key{Space: "test", Name: "leader"}

// pausing is a candidate whose failures the test sees.
func pausing(t *testing.T) (c elect.Candidate, failures chan error) {
	failures = make(chan error, 10)
	return elect.Candidate{Locker: lock.Dir{Path: t.TempDir()}, Key: key, Failed: func(err error) { failures <- err }}, failures
}

var (
	check   = testkit.Check
	that    = testkit.That
	errOf   = testkit.ErrOf
	noErr   = testkit.NoErr
	wantErr = testkit.WantErr
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

// TestCampaignsAgain: after an error, and after a loss, and not after success.
func TestCampaignsAgain(t *testing.T) {
	c, failures := pausing(t)
	mine := errors.New("error of the leader")
	turn := 0
	err := c.Run(t.Context(), func(ctx context.Context) error {
		turn++
		switch turn {
		case 1:
			return mine
		case 2, 3: // is robbed, and says so, or takes its work for done
			check(t, os.Remove(lock.HoldOf(ctx).(*lock.FileHold).Path()))
			if turn == 2 {
				return context.Canceled
			}
		}
		return nil
	})
	that(t, err == nil && turn == 4, "%v after %d turns", err, turn)
	equal(t, <-failures, mine, "first failure")
	wantErr(t, <-failures, context.Canceled, "second failure")
	if err := <-failures; !errors.Is(err, lock.ErrLost) {
		t.Errorf("third failure is %v, want to be told of the loss", err)
	}
}

// TestResigns: when its context ends, the leader is let finish, and then the lock is free.
func TestResigns(t *testing.T) {
	c, _ := pausing(t)
	why := errors.New("why it ends")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := c.Run(ctx, func(ctx context.Context) error {
		cancel(why)
		<-ctx.Done()
		that(t, errOf(c.Locker.TryAcquire(t.Context(), key)) != nil, "another leads while it does")
		return ctx.Err()
	})
	that(t, errors.Is(err, context.Canceled) && errors.Is(err, why), "error is %v", err)
	held := must(c.Locker.TryAcquire(t.Context(), key))(t)

	// While it waits for the lock, and while it pauses.
	ctx2, cancel2 := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel2()
	wantErr(t, c.Run(ctx2, func(context.Context) error { t.Error("leads"); return nil }), context.DeadlineExceeded)
	check(t, held.Release())
	ctx3, cancel3 := context.WithCancel(t.Context())
	c.Failed = func(error) { cancel3() }
	wantErr(t, c.Run(ctx3, func(context.Context) error { return why }), context.Canceled)
}

// TestNoCampaign: what will never succeed is not repeated, and a panic passes.
func TestNoCampaign(t *testing.T) {
	c, _ := pausing(t)
	c.Key = lock.Key{}
	wantErr(t, c.Run(t.Context(), func(context.Context) error { return nil }), lock.ErrInvalidName)
	c.Key = key
	err := elect.Run(t.Context(), c.Locker, key, func(ctx context.Context) error {
		wantErr(t, c.Run(ctx, func(context.Context) error { return nil }), lock.ErrReentrant)
		return nil
	})
	check(t, err)
	func() {
		defer func() {
			equal(t, recover(), "panic", "recovered")
		}()
		_ = c.Run(t.Context(), func(context.Context) error { panic("panic") })
	}()
	held := must(c.Locker.TryAcquire(t.Context(), key))(t)
	check(t, held.Release())
}

// TestLeaders shows nobody, then who leads, then nobody.
func TestLeaders(t *testing.T) {
	c, _ := pausing(t)
	var held lock.Hold
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for e, err := range c.Leaders(ctx) {
		check(t, err)
		switch seen++; seen {
		case 1:
			that(t, e == nil, "%+v leads", e)
			held = must(c.Locker.Acquire(ctx, key))(t)
		case 2:
			that(t, e != nil && e.Info != nil && e.Info.PID == os.Getpid(), "%+v leads", e)
			check(t, held.Release())
		case 3:
			that(t, e == nil, "%+v leads", e)
			cancel()
		}
	}
	equal(t, seen, 3, "changes")
}

// Whoever leads writes with the fence, which grows with each leader.
func Example() {
	dir, _ := os.MkdirTemp("", "leader-")
	defer os.RemoveAll(dir)
	store := struct{ fence int64 }{} // what refuses a smaller one than it has seen
	locks, key := lock.Dir{Path: dir}, lock.Key{Space: "app", Name: "leader"}
	for range 2 { // as two processes would, one after the other
		err := elect.Run(context.Background(), locks, key, func(ctx context.Context) error {
			fence, err := lock.HoldOf(ctx).Fence()
			if err != nil {
				return err
			}
			fmt.Println("leads, with a greater fence:", fence > store.fence)
			store.fence = fence
			return nil // resigns; to lead for good, go on until ctx ends
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// leads, with a greater fence: true
	// leads, with a greater fence: true
}
