package lock_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// TestOwner: the claim says for whose life the lock is held, and the holder can say that it
// is another's by now. It stays the holder's claim.
func TestOwner(t *testing.T) {
	for name, f := range map[string]lock.File{
		"":         {Path: filepath.Join(t.TempDir(), ".lock"), Cmd: "push", OwnerPID: 42},
		"fallback": lock.File{Path: filepath.Join(t.TempDir(), ".lock"), OwnerPID: 42, StaleAfter: 3 * time.Second}.WithoutKernelLock(),
	} {
		t.Run(name, func(t *testing.T) {
			held := tryHold(t, f)
			wantOwner := func(want int) {
				t.Helper()
				status, err := f.Inspect(t.Context())
				check(t, err)
				if status.Info == nil || status.Info.OwnerPID != want || held.Info() != *status.Info {
					t.Errorf("others see %+v, and it is %+v; want owner %d", status.Info, held.Info(), want)
				}
			}
			size := func() int64 {
				info, err := os.Stat(f.Path)
				check(t, err)
				return info.Size()
			}
			wantOwner(42)
			before := size()
			for _, pid := range []int{1, math.MaxInt32, 4242} {
				check(t, held.SetOwnerPID(pid))
				wantOwner(pid)
				if size() != before {
					t.Errorf("the lock file has %d bytes by now, and had %d", size(), before)
				}
			}
			if said := tryErr(t, f).Error(); !strings.Contains(said, "session of pid 4242, since") {
				t.Error(said)
			}
			for _, pid := range []int{0, -1, math.MinInt32} {
				if err := held.SetOwnerPID(pid); !errors.Is(err, lock.ErrInvalidName) {
					t.Errorf("%d: %v", pid, err)
				}
			}
			wantOwner(4242)
			letGo(t, held)
			isAbsent(t, f.Path)
			if err := held.SetOwnerPID(7); err == nil || errors.Is(err, lock.ErrLost) {
				t.Error("after its release: ", err)
			}
		})
	}
}

// TestOwner_Refused: an owner is named where there is room, by who has the lock.
func TestOwner_Refused(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	for _, pid := range []int{-1, math.MinInt32} {
		if err := tryErr(t, lock.File{Path: path, OwnerPID: pid}); !errors.Is(err, lock.ErrInvalidName) {
			t.Errorf("%d: %v", pid, err)
		}
		isAbsent(t, path)
	}
	held := tryHold(t, lock.File{Path: path})
	if err := held.SetOwnerPID(7); !errors.Is(err, errors.ErrUnsupported) {
		t.Error("without an owner: ", err)
	}
	letGo(t, held)
	reader, err := lock.File{Path: path, OwnerPID: 42}.TryAcquireShared(t.Context())
	check(t, err)
	if reader.Info().Mode == "shared" {
		if err := reader.SetOwnerPID(7); !errors.Is(err, errors.ErrUnsupported) {
			t.Error("a reader: ", err)
		}
	}
	letGo(t, reader)

	held = tryHold(t, lock.File{Path: path, OwnerPID: 42})
	check(t, os.Rename(path, path+"2"))
	other := []byte("another's")
	putFile(t, path, other, time.Time{})
	if err := held.SetOwnerPID(7); !errors.Is(err, lock.ErrLost) {
		t.Error("of a lock that was lost: ", err)
	}
	select {
	case <-held.Lost():
	default:
		t.Error("the loss is not told")
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != string(other) {
		t.Errorf("another's file is %q by now (%v)", data, err)
	}
	if err := held.Release(); !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
}

// TestOwner_NeverHalf: whoever reads meanwhile finds one owner or the other.
func TestOwner_NeverHalf(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), OwnerPID: 1}
	held := tryHold(t, f)
	defer letGo(t, held)
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				data, err := os.ReadFile(f.Path)
				if err != nil {
					t.Error(err)
					return
				}
				claim, err := lock.DecodeClaim(data)
				if err != nil || claim.OwnerPID != 1 && claim.OwnerPID != math.MaxInt32 {
					t.Errorf("%v: %s", err, data)
					return
				}
			}
		})
	}
	for range 2000 {
		check(t, held.SetOwnerPID(math.MaxInt32))
		check(t, held.SetOwnerPID(1))
	}
	cancel()
	readers.Wait()
}
