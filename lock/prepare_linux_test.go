//go:build !portable

package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// awaitPrepared has a waiter for a lock wait in the kernel, with its file prepared, and returns
// what comes of it. It counts the steps that the waiter passes.
func awaitPrepared(t *testing.T, ctx context.Context, f lock.File, at func(step string)) <-chan outcome {
	t.Helper()
	needsMarks(t)
	prepared := make(chan struct{}, 1)
	f.Observe = func(e lock.Event) {
		if e.Kind == lock.EventWaiting { // after Parked
			select {
			case prepared <- struct{}{}:
			default:
			}
		}
	}
	came := beginAcquire(t, ctx, f.Park(at))
	select {
	case <-prepared:
	case <-time.After(testkit.Patience):
		t.Fatal("it does not wait")
	}
	eventually(t, "its file is prepared", func() bool { return lock.Preparing() == 0 })
	return came
}

// TestPrepared: a waiter's lock file appears whole, marked, locked, and with the time at which
// it was acquired.
func TestPrepared(t *testing.T) {
	f := queued(t)
	f.Cmd = "prepared"
	for _, f.Perm = range []os.FileMode{0, 0o660} {
		first := tryHold(t, f)
		steps := map[string]int{}
		came := awaitPrepared(t, t.Context(), f, func(step string) { steps[step]++ })
		if entries, err := os.ReadDir(filepath.Dir(f.Path)); err != nil || len(entries) != 2 {
			t.Errorf("while it waits there are %v, %v", entries, err)
		}
		released := time.Now()
		letGo(t, first)
		second := getHeld(t, came)
		if steps[lock.StepPublished] != 1 || steps[lock.StepCreated] != 0 {
			t.Errorf("it was not the prepared file: %v", steps)
		}
		claim, err := evidence.Decode(getFile(t, f.Path))
		check(t, err)
		if claim.Claim != second.Info() || !json.Valid(getFile(t, f.Path)) {
			t.Errorf("the file says %+v, and the holder %+v", claim.Claim, second.Info())
		}
		if claim.CreatedAt.Before(released) || claim.CreatedAt.After(time.Now()) {
			t.Errorf("it was acquired at %v, and released before at %v", claim.CreatedAt, released)
		}
		info, err := os.Lstat(f.Path)
		check(t, err)
		if want := max(f.Perm, 0o600) | os.ModeSticky; info.Mode() != want {
			t.Errorf("its mode is %v, want %v", info.Mode(), want)
		}
		if err := peek(f.Path); err != platform.ErrBusy {
			t.Errorf("its own lock: %v; want it taken", err)
		}
		letGo(t, second)
		check(t, os.Remove(f.Path+".flock"))
	}
}

// TestPrepared_NameTaken: where a program that knows only O_EXCL was faster, its file stays, and
// the prepared one goes.
func TestPrepared_NameTaken(t *testing.T) {
	f := queued(t)
	f.StaleAfter = -1
	first := tryHold(t, f)
	found := 0
	came := awaitPrepared(t, t.Context(), f, func(step string) {
		switch step {
		case lock.StepSiblingLocked:
			putFile(t, f.Path, []byte("another's"), time.Time{})
		case lock.StepFoundLocked: // it has found the other's file
			if found++; string(getFile(t, f.Path)) != "another's" {
				t.Error("the other's file is gone")
			}
			check(t, os.Remove(f.Path))
		case lock.StepPublished:
			t.Error("the prepared file has a name that was taken")
		}
	})
	letGo(t, first)
	letGo(t, getHeld(t, came))
	if open := openBelow(t, filepath.Dir(f.Path)); found != 1 || open != "" {
		t.Errorf("found %d times; open: %s", found, open)
	}
}

// TestPrepared_Dropped: a wait that ends, and one whose folder went, leave no file open, and no
// lock that nobody has.
func TestPrepared_Dropped(t *testing.T) {
	f := queued(t)
	folder := filepath.Dir(f.Path)
	first := tryHold(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	came := awaitPrepared(t, ctx, f, func(string) {})
	cancel()
	if got := <-came; !errors.Is(got.err, context.Canceled) {
		t.Error(got.err)
	}
	came = awaitPrepared(t, t.Context(), f, func(string) {})
	check(t, os.Rename(folder, folder+".old"))
	check(t, os.Mkdir(folder, 0o755))
	if err := first.Release(); !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
	second := getHeld(t, came)
	if _, err := os.Lstat(f.Path); err != nil {
		t.Error("the lock is held in a folder that is not at the path: ", err)
	}
	letGo(t, second)
	eventually(t, "all is closed", func() bool { return openBelow(t, folder) == "" && openBelow(t, folder+".old") == "" })
}
