package elect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/elect"
)

func TestMain(m *testing.M) {
	testkit.Main(m, func(_ string, args []string) { candidate(args[0], args[1]) })
}

var key = lock.Key{Space: "test", Name: "leader"}

// candidate leads until it is killed, and says so, in a log that all append to, and to who
// started it.
func candidate(dir, name string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // who started it has gone
	}()
	err := elect.Run(context.Background(), lock.Dir{Path: dir}, key, func(ctx context.Context) error {
		fence, err := lock.HoldOf(ctx).Fence()
		if err != nil {
			return err
		}
		if err := note(dir, "in", name); err != nil {
			return err
		}
		fmt.Println("leads", fence)
		<-ctx.Done()
		return ctx.Err()
	})
	fmt.Println("error:", err)
}

func note(dir string, words ...string) error {
	f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strings.Join(words, " "))
	return errors.Join(err, f.Close())
}

// TestLeadersKilled: of five candidates the leader is killed, again and again, and replaced.
// Never do two lead, and the fence grows. HOLDFAST_ELECT_KILLS is how often.
func TestLeadersKilled(t *testing.T) {
	kills, candidates := 20, 5
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_ELECT_KILLS")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	type said struct {
		name, line string
	}
	lines := make(chan said)
	running := map[string]*testkit.Child{}
	start := func(i int) {
		name := fmt.Sprint("c", i)
		c := testkit.Start(t, "candidate", dir, name)
		running[name] = c
		go func() {
			if line, ok := c.Line(); ok {
				lines <- said{name, line}
			}
		}()
	}
	for i := range candidates {
		start(i)
	}
	var last int64
	var waits []time.Duration
	killed := time.Time{}
	for i := range kills {
		var s said
		select {
		case s = <-lines:
		case <-time.After(testkit.Patience):
			t.Fatal("nobody leads")
		}
		if !killed.IsZero() {
			waits = append(waits, time.Since(killed))
		}
		var fence int64
		if _, err := fmt.Sscanf(s.line, "leads %d", &fence); err != nil || fence <= last {
			t.Fatalf("%s says %q, after fence %d", s.name, s.line, last)
		}
		last = fence
		testkit.Check(t, note(dir, "killed", s.name))
		killed = time.Now()
		running[s.name].Kill()
		start(candidates + i)
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	testkit.Check(t, err)
	leads := ""
	for line := range strings.Lines(string(text)) {
		what, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case what == "in" && leads != "":
			t.Errorf("%s leads beside %s", name, leads)
		case what == "in":
			leads = name
		case name != leads:
			t.Errorf("%s was killed while %q led", name, leads)
		default:
			leads = ""
		}
	}
	slices.Sort(waits)
	t.Logf("the next leader, after SIGKILL for the last: median %v, at most %v, of %d", waits[len(waits)/2], waits[len(waits)-1], len(waits))
	testkit.Eventually(t, "what is left of the last", func() bool { // drains those who lead now
		select {
		case <-lines:
			return true
		default:
			return false
		}
	})
}

// pausing is a candidate whose failures the test sees.
func pausing(t *testing.T) (c elect.Candidate, failures chan error) {
	failures = make(chan error, 10)
	return elect.Candidate{Locker: lock.Dir{Path: t.TempDir()}, Key: key, Failed: func(err error) { failures <- err }}, failures
}

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
			testkit.Check(t, os.Remove(lock.HoldOf(ctx).(*lock.FileHold).Path()))
			if turn == 2 {
				return context.Canceled
			}
		}
		return nil
	})
	if err != nil || turn != 4 {
		t.Errorf("%v after %d turns", err, turn)
	}
	if err := <-failures; err != mine {
		t.Errorf("first failure is %v", err)
	}
	if err := <-failures; !errors.Is(err, context.Canceled) {
		t.Errorf("second failure is %v", err)
	}
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
		if _, err := c.Locker.TryAcquire(t.Context(), key); err == nil {
			t.Error("another leads while it does")
		}
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("error is %v", err)
	}
	held, err := c.Locker.TryAcquire(t.Context(), key)
	testkit.Check(t, err)

	// While it waits for the lock, and while it pauses.
	ctx2, cancel2 := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel2()
	if err := c.Run(ctx2, func(context.Context) error { t.Error("leads"); return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	testkit.Check(t, held.Release())
	ctx3, cancel3 := context.WithCancel(t.Context())
	c.Failed = func(error) { cancel3() }
	if err := c.Run(ctx3, func(context.Context) error { return why }); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// TestNoCampaign: what will never succeed is not repeated, and a panic passes.
func TestNoCampaign(t *testing.T) {
	c, _ := pausing(t)
	c.Key = lock.Key{}
	if err := c.Run(t.Context(), func(context.Context) error { return nil }); !errors.Is(err, lock.ErrInvalidName) {
		t.Errorf("error is %v", err)
	}
	c.Key = key
	err := elect.Run(t.Context(), c.Locker, key, func(ctx context.Context) error {
		if err := c.Run(ctx, func(context.Context) error { return nil }); !errors.Is(err, lock.ErrReentrant) {
			t.Errorf("error is %v", err)
		}
		return nil
	})
	testkit.Check(t, err)
	func() {
		defer func() {
			if r := recover(); r != "panic" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = c.Run(t.Context(), func(context.Context) error { panic("panic") })
	}()
	held, err := c.Locker.TryAcquire(t.Context(), key)
	testkit.Check(t, err)
	testkit.Check(t, held.Release())
}

// TestLeaders shows nobody, then who leads, then nobody.
func TestLeaders(t *testing.T) {
	c, _ := pausing(t)
	var held lock.Hold
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for e, err := range c.Leaders(ctx) {
		testkit.Check(t, err)
		switch seen++; seen {
		case 1:
			if e != nil {
				t.Errorf("%+v leads", e)
			}
			held, err = c.Locker.Acquire(ctx, key)
			testkit.Check(t, err)
		case 2:
			if e == nil || e.Info == nil || e.Info.PID != os.Getpid() {
				t.Errorf("%+v leads", e)
			}
			testkit.Check(t, held.Release())
		case 3:
			if e != nil {
				t.Errorf("%+v leads", e)
			}
			cancel()
		}
	}
	if seen != 3 {
		t.Errorf("%d changes", seen)
	}
}
