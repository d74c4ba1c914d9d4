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
		check(t, f.TryTurnstile())
	}
	links := must(filepath.Glob("/proc/self/fd/*"))(t)
	for _, link := range links {
		if target, _ := os.Readlink(link); target != path {
			continue
		}
		var fd int
		fmt.Sscan(filepath.Base(link), &fd)
		other, err := syscall.Dup(fd) // the same open file
		check(t, err)
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
	check(t, os.WriteFile(path, nil, 0o600))
	asked := open(t, path)
	if _, err := asked.BeingWritten(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs leases: ", err)
	}
	closed(t, asked)
	reader := must(os.Open(path))(t)
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
	noErr(t, errOf(unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)))
	closed(t, locked(t, path, platform.Exclusive))
}

// The turnstile.

func TestTurnstile(t *testing.T) { // guards: W2
	testkit.NeedsTurnstile(t)
	path := filepath.Join(t.TempDir(), "file")
	first, second := open(t, path), open(t, path)
	taken := func(f *platform.File, want bool, when string) {
		t.Helper()
		equal(t, must(f.TurnstileTaken())(t), want, when, "taken")
	}
	taken(first, false, "nobody")
	check(t, first.TryTurnstile())
	equal(t, second.TryTurnstile(), platform.ErrBusy, "a second one")
	taken(first, false, "ours")
	taken(second, true, "another's")
	wantLock(t, "the kernel lock does not see it", path, platform.Exclusive, nil)
	third := open(t, path)
	through := make(chan error, 1)
	go func() { through <- third.WaitTurnstile() }()
	first.LeaveTurnstile()
	first.LeaveTurnstile()
	promptly(t, "WaitTurnstile", func() {
		noErr(t, <-through)
	})
	taken(second, true, "waited for")
	noErr(t, third.TryLock(platform.Exclusive))
	third.LeaveTurnstile()
	taken(second, false, "left")
	wantLock(t, "it took the kernel lock along", path, platform.Exclusive, platform.ErrBusy)
	noErr(t, second.TryTurnstile())
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
	check(t, waiter.TryTurnstile())
	came := make(chan error, 1)
	go func() { came <- waiter.WaitLock(platform.Exclusive) }()
	waiter.LeaveTurnstile()
	noErr(t, next.TryTurnstile(), "left")
	closed(t, holder)
	promptly(t, "WaitLock", func() {
		noErr(t, <-came)
	})
}

func TestHasByteLock(t *testing.T) {
	testkit.NeedsTurnstile(t)
	path := filepath.Join(t.TempDir(), "file")
	f, other := open(t, path), open(t, path)
	that(t, !f.HasByteLock(), "nobody has one")
	check(t, other.TryTurnstile())
	that(t, f.HasByteLock(), "another open file has one")
	other.LeaveTurnstile()
	that(t, !f.HasByteLock(), "it has gone")
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
				equal(t, inside.Add(1), 1, "have it")
				inside.Add(-1)
				noErr(t, f.Close())
			}
		})
	}
	all.Wait()
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors became %d", before, now)
	}
}
