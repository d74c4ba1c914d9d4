package platform_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
	"golang.org/x/sys/unix"
)

// TestFile_NotInherited: a child has none of our descriptors.
func TestFile_NotInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f := locked(t, path, platform.Exclusive)
	var p platform.Process
	child, end := playRole(t, "wait", &p)
	defer end()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", child.Process.Pid))
	if err != nil || len(links) == 0 {
		t.Fatal(links, err)
	}
	for _, link := range links {
		if target, _ := os.Readlink(link); target == path {
			t.Error("the child has the file open")
		}
	}
	closed(t, f)
	wantLock(t, "closed", path, platform.Exclusive, nil)
}

// TestClose_Unlocks: to close the file would not do while a child, between fork and exec,
// has it open.
func TestClose_Unlocks(t *testing.T) { // guards: S13
	path := filepath.Join(t.TempDir(), "file")
	f := locked(t, path, platform.Exclusive)
	if platform.HasTurnstile() {
		if err := f.TryTurnstile(); err != nil {
			t.Fatal(err)
		}
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, _ := os.Readlink(link); target != path {
			continue
		}
		var fd int
		fmt.Sscan(filepath.Base(link), &fd)
		other, err := syscall.Dup(fd) // the same open file
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(other)
	}
	closed(t, f)
	wantLock(t, "closed", path, platform.Exclusive, nil)
	f = open(t, path)
	if err := f.TryTurnstile(); err != nil && platform.HasTurnstile() {
		t.Errorf("the turnstile: %v", err)
	}
}

// TestOpen_Leased: whoever opens a file with a lease on it is told, and does not wait.
func TestOpen_Leased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	asked := open(t, path)
	if _, err := asked.BeingWritten(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs leases: ", err)
	}
	closed(t, asked)
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGIO) // by which the kernel asks for it back
	defer signal.Stop(signals)
	fd := reader.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		t.Skip("needs a filesystem with leases: ", err)
	}
	promptly(t, "Open", func() {
		if _, err := platform.Open(path, os.O_RDWR|os.O_CREATE); err == nil || err.(*os.PathError).Err != platform.ErrLeased {
			t.Errorf("leased: %v", err)
		}
	})
	promptly(t, "the signal", func() { <-signals })
	if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Error(err)
	}
	closed(t, locked(t, path, platform.Exclusive))
}

// The turnstile.

func TestTurnstile(t *testing.T) { // guards: W2
	testkit.NeedsTurnstile(t)
	path := filepath.Join(t.TempDir(), "file")
	first, second := open(t, path), open(t, path)
	taken := func(f *platform.File, want bool, when string) {
		t.Helper()
		if got, err := f.TurnstileTaken(); err != nil || got != want {
			t.Errorf("%s: taken is %v, %v", when, got, err)
		}
	}
	taken(first, false, "nobody")
	if err := first.TryTurnstile(); err != nil {
		t.Fatal(err)
	}
	if err := second.TryTurnstile(); err != platform.ErrBusy {
		t.Errorf("a second one: %v, want ErrBusy", err)
	}
	taken(first, false, "ours")
	taken(second, true, "another's")
	wantLock(t, "the kernel lock does not see it", path, platform.Exclusive, nil)
	third := open(t, path)
	through := make(chan error, 1)
	go func() { through <- third.WaitTurnstile() }()
	first.LeaveTurnstile()
	first.LeaveTurnstile()
	promptly(t, "WaitTurnstile", func() {
		if err := <-through; err != nil {
			t.Error(err)
		}
	})
	taken(second, true, "waited for")
	if err := third.TryLock(platform.Exclusive); err != nil {
		t.Error(err)
	}
	third.LeaveTurnstile()
	taken(second, false, "left")
	wantLock(t, "it took the kernel lock along", path, platform.Exclusive, platform.ErrBusy)
	if err := second.TryTurnstile(); err != nil {
		t.Error(err)
	}
	closed(t, third)
	taken(first, true, "another's file was closed")
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestTurnstile_LeftWhileWaiting: whoever waits for the lock may leave the turnstile.
func TestTurnstile_LeftWhileWaiting(t *testing.T) {
	testkit.NeedsTurnstile(t)
	path := filepath.Join(t.TempDir(), "file")
	holder, waiter, next := locked(t, path, platform.Exclusive), open(t, path), open(t, path)
	if err := waiter.TryTurnstile(); err != nil {
		t.Fatal(err)
	}
	came := make(chan error, 1)
	go func() { came <- waiter.WaitLock(platform.Exclusive) }()
	waiter.LeaveTurnstile()
	if err := next.TryTurnstile(); err != nil {
		t.Errorf("left: %v", err)
	}
	closed(t, holder)
	promptly(t, "WaitLock", func() {
		if err := <-came; err != nil {
			t.Error(err)
		}
	})
}

func TestHasByteLock(t *testing.T) {
	testkit.NeedsTurnstile(t)
	path := filepath.Join(t.TempDir(), "file")
	f, other := open(t, path), open(t, path)
	if f.HasByteLock() {
		t.Error("nobody has one")
	}
	if err := other.TryTurnstile(); err != nil {
		t.Fatal(err)
	}
	if !f.HasByteLock() {
		t.Error("another open file has one")
	}
	other.LeaveTurnstile()
	if f.HasByteLock() {
		t.Error("it has gone")
	}
}

// TestFile_ManyAtOnce: each goroutine's file is its own.
func TestFile_ManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	before := descriptors(t)
	var all sync.WaitGroup
	var inside atomic.Int32
	for range 8 {
		all.Go(func() {
			for range 200 {
				f, err := platform.Open(path, os.O_RDWR|os.O_CREATE)
				if err == nil {
					err = f.WaitLock(platform.Exclusive)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have it", n)
				}
				inside.Add(-1)
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors became %d", before, now)
	}
}
