package platform_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
)

// Kernel locks.

func TestTryKernelLock_Modes(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	for _, test := range []struct {
		first, second platform.Mode
		busy          bool
	}{
		{platform.Exclusive, platform.Exclusive, true},
		{platform.Exclusive, platform.Shared, true},
		{platform.Shared, platform.Exclusive, true},
		{platform.Shared, platform.Shared, false},
	} {
		first := tryLock(t, path, test.first)
		second, err := platform.TryKernelLock(path, test.second)
		if test.busy && err != platform.ErrBusy {
			t.Errorf("%v then %v: %v, want ErrBusy itself", test.first, test.second, err)
		} else if !test.busy && err != nil {
			t.Errorf("%v then %v: %v", test.first, test.second, err)
		}
		if err == nil {
			unlock(t, second)
		}
		unlock(t, first)
		unlock(t, tryLock(t, path, test.second))
	}
}

func TestTryKernelLock_CreatesAndLeaves(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	k := tryLock(t, path, platform.Exclusive)
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode is %v, want 0600", info.Mode())
	}
	id, err := platform.IdentifyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at, same, err := k.At(path); err != nil || !same || at != id {
		t.Errorf("at its path is %v, %v, %v; want %v", at, same, err, id)
	}
	unlock(t, k)
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	unlock(t, tryLock(t, path, platform.Shared))
	if data, err := os.ReadFile(path); err != nil || string(data) != "content" {
		t.Errorf("content is %q (%v)", data, err)
	}
	if err := k.Unlock(); err != nil {
		t.Errorf("second Unlock: %v", err)
	}
}

func TestTryKernelLock_Replaced(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	k := tryLock(t, path, platform.Exclusive)
	defer unlock(t, k)
	is := func() bool {
		_, same, err := k.At(path)
		if err != nil {
			t.Fatal(err)
		}
		return same
	}
	if !is() {
		t.Error("the locked file is not the one at its path")
	}
	if runtime.GOOS == "windows" {
		return // an open file stays where it is
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if _, same, err := k.At(path); same || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("moved away: %v, %v", same, err)
	}
	other := tryLock(t, path, platform.Exclusive) // another file, and so another lock
	defer unlock(t, other)
	if is() {
		t.Error("a replaced file passes for the locked one")
	}
	if _, err := platform.TryKernelLock(path+".moved", platform.Exclusive); err != platform.ErrBusy {
		t.Errorf("the lock did not move with its file: %v", err)
	}
}

func TestWaitKernelLock(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	k := tryLock(t, path, platform.Exclusive)
	var dropped atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		next, err := platform.WaitKernelLock(path, platform.Exclusive)
		if err != nil {
			t.Error(err)
			return
		}
		if !dropped.Load() {
			t.Error("granted while it was held")
		}
		if err := next.Unlock(); err != nil {
			t.Error(err)
		}
	}()
	dropped.Store(true)
	unlock(t, k)
	promptly(t, "WaitKernelLock", func() { <-done })
}

func TestPeekKernelLock(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	if err := platform.PeekKernelLock(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("looking created the file")
	}
	for _, mode := range []platform.Mode{platform.Exclusive, platform.Shared} {
		k := tryLock(t, path, mode)
		if err := platform.PeekKernelLock(path); err != platform.ErrBusy {
			t.Errorf("held in mode %v: %v, want ErrBusy", mode, err)
		}
		unlock(t, k)
		if err := platform.PeekKernelLock(path); err != nil {
			t.Errorf("free: %v", err)
		}
	}
	unlock(t, tryLock(t, path, platform.Exclusive)) // nothing stays locked by looking
}
