package platform_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
)

// The turnstile.

func TestTurnstile(t *testing.T) {
	if !platform.HasTurnstile() {
		t.Skip("needs Linux 3.15, for locks of open files")
	}
	path := filepath.Join(t.TempDir(), "sibling")
	first := tryTurnstile(t, path)
	if _, err := platform.TryTurnstile(path); err != platform.ErrBusy {
		t.Errorf("a second one: %v, want ErrBusy", err)
	}
	// It and the kernel lock don't see each other.
	k := tryLock(t, path, platform.Exclusive)
	through := make(chan *platform.Turnstile)
	go func() {
		next, err := platform.WaitTurnstile(path)
		if err != nil {
			t.Error(err)
		}
		through <- next
	}()
	before := descriptors(t)
	first.Open()
	promptly(t, "WaitTurnstile", func() { (<-through).Open() })
	if after := descriptors(t); after >= before {
		t.Errorf("%d descriptors became %d", before, after)
	}
	again, err := platform.TryTurnstile(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Open()
	if err := platform.PeekKernelLock(path); err != platform.ErrBusy {
		t.Errorf("the turnstile took the kernel lock along: %v", err)
	}
	unlock(t, k)
	(*platform.Turnstile)(nil).Open()
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTryUnqueued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	try := func(want error, when string) {
		t.Helper()
		k, err := platform.TryUnqueued(path)
		if err != want {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
		if k != nil {
			unlock(t, k)
		}
	}
	try(nil, "free, and not there yet")
	turnstile, err := platform.TryTurnstile(path)
	if err != nil {
		t.Fatal(err)
	}
	try(platform.ErrBusy, "free, with somebody in the queue")
	turnstile.Open()
	k := tryLock(t, path, platform.Exclusive)
	try(platform.ErrBusy, "held")
	unlock(t, k)
	try(nil, "free again")
}

func tryTurnstile(t *testing.T, path string) *platform.Turnstile {
	t.Helper()
	turnstile, err := platform.TryTurnstile(path)
	if err != nil {
		t.Fatal(err)
	}
	return turnstile
}

// lockThrough takes the kernel lock of a turnstile's open file.
func lockThrough(t *testing.T, turnstile *platform.Turnstile) *platform.KernelLock {
	t.Helper()
	k, err := turnstile.TryKernelLock(platform.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A turnstile and a kernel lock share an open file, and end in either order.
func TestTurnstile_KernelLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	before := descriptors(t)
	free := func(want error, when string) {
		t.Helper()
		if err := platform.PeekKernelLock(path); err != want {
			t.Errorf("%s, the kernel lock: %v, want %v", when, err, want)
		}
	}
	queue := func(want error, when string) {
		t.Helper()
		turnstile, err := platform.TryTurnstile(path)
		if err != want {
			t.Errorf("%s, the turnstile: %v, want %v", when, err, want)
		}
		turnstile.Open()
	}
	for _, lockFirst := range []bool{true, false} {
		turnstile := tryTurnstile(t, path)
		k := lockThrough(t, turnstile)
		if now := descriptors(t); now != before+1 {
			t.Errorf("%d descriptors became %d", before, now)
		}
		free(platform.ErrBusy, "both had")
		queue(platform.ErrBusy, "both had")
		if lockFirst {
			unlock(t, k)
			free(nil, "lock dropped")
			queue(platform.ErrBusy, "lock dropped")
			turnstile.Open()
		} else {
			turnstile.Open()
			free(platform.ErrBusy, "turnstile open")
			queue(nil, "turnstile open")
			unlock(t, k)
		}
		unlock(t, k) // again
		turnstile.Open()
		free(nil, "both over")
		queue(nil, "both over")
		if now := descriptors(t); now != before {
			t.Errorf("%d descriptors became %d", before, now)
		}
		// What it locked is closed; the path is opened anew.
		again, err := turnstile.WaitKernelLock(platform.Shared)
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, again)
	}

	// It is opened while its lock is waited for: the wait goes on.
	holder := tryLock(t, path, platform.Exclusive)
	turnstile := tryTurnstile(t, path)
	if _, err := turnstile.TryKernelLock(platform.Shared); err != platform.ErrBusy {
		t.Errorf("a busy lock: %v, want ErrBusy", err)
	}
	came := make(chan *platform.KernelLock)
	go func() {
		k, err := turnstile.WaitKernelLock(platform.Exclusive)
		if err != nil {
			t.Error(err)
		}
		came <- k
	}()
	turnstile.Open()
	queue(nil, "abandoned")
	unlock(t, holder)
	promptly(t, "WaitKernelLock", func() { unlock(t, <-came) })
}

// A second flock(2) on one open file would convert the first lock, and the end of
// either would end both.
func TestTurnstile_OneLockOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	turnstile := tryTurnstile(t, path)
	k := lockThrough(t, turnstile)
	for _, when := range []string{"taken", "open"} {
		for _, mode := range []platform.Mode{platform.Exclusive, platform.Shared} {
			if second, err := turnstile.TryKernelLock(mode); err != platform.ErrBusy {
				t.Errorf("turnstile %s: a second lock: %v, %v; want ErrBusy", when, second, err)
			}
		}
		turnstile.Open()
	}
	if err := platform.PeekKernelLock(path); err != platform.ErrBusy {
		t.Errorf("the first lock is gone: %v", err)
	}
	unlock(t, k)
	unlock(t, tryLock(t, path, platform.Exclusive))
}

// Two who unlock one lock at once must not close what it shares with the turnstile.
func TestTurnstile_UnlockedTwiceAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	before := descriptors(t)
	for range 2000 {
		turnstile := tryTurnstile(t, path)
		k := lockThrough(t, turnstile)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := k.Unlock(); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if _, err := platform.TryTurnstile(path); err != platform.ErrBusy {
			t.Fatalf("the turnstile went with the lock: %v", err)
		}
		turnstile.Open()
	}
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors became %d", before, now)
	}
}
