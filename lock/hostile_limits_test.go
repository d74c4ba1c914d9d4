//go:build linux

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestHostile_NoDescriptors: however few descriptors are left, the lock is had or
// the reason is told, and nothing stays behind.
func TestHostile_NoDescriptors(t *testing.T) { // guards: H4
	if !inChild(t, &syscall.SysProcAttr{}) {
		return
	}
	dir := t.TempDir()
	free, dead := lock.File{Path: filepath.Join(dir, "free")}, lock.File{Path: filepath.Join(dir, "dead")}
	putDeadClaim(t, dead.Path) // the runtime takes descriptors of its own for the first file
	unlimited := setLimit(t, syscall.RLIMIT_NOFILE, 64)
	var spare []int
	exhaust := func() {
		for {
			fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err == syscall.EMFILE {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			spare = append(spare, fd)
		}
	}
	giveBack := func(n int) {
		for range n {
			syscall.Close(spare[len(spare)-1])
			spare = spare[:len(spare)-1]
		}
	}
	defer func() { giveBack(len(spare)); unlimited() }()
	exhaust()
	total := len(spare)
	failures, successes := 0, 0
	for left := range 8 {
		for mode, in := range modes {
			for _, file := range []lock.File{free, dead} {
				giveBack(2)
				os.Remove(dead.Path)
				putDeadClaim(t, dead.Path)
				exhaust()
				giveBack(left)
				held, err := in(file).TryAcquire(context.Background())
				if err == nil {
					successes++
					// In fallback mode that takes a further file; without it, ours says that
					// it was released, and whoever comes next removes it.
					if err := held.Release(); err != nil {
						wantSystemError(t, err, syscall.EMFILE)
						giveBack(8)
						letGo(t, tryHold(t, in(file)))
					}
				} else {
					failures++
					wantSystemError(t, err, syscall.EMFILE)
					if _, err := os.Lstat(file.Path); file.Path == free.Path && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%d left, %s: the lock file stays (%v)", left, mode, err)
					}
				}
				if _, err := os.Lstat(file.Path + ".reclaim"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%d left, %s: the marker stays (%v)", left, mode, err)
				}
				exhaust()
				if len(spare) != total {
					t.Fatalf("%d left, %s: of %d descriptors %d came back", left, mode, total, len(spare))
				}
			}
		}
	}
	that(t, failures != 0 && successes != 0, "%d failures, %d successes: want some of each", failures, successes)

	giveBack(len(spare))
	unlimited()

	// Nor has it forgotten who it is.
	held := tryHold(t, free)
	defer letGo(t, held)
	claim := held.Info()
	equal(t, claim.BootID, strings.TrimSpace(string(getFile(t, "/proc/sys/kernel/random/boot_id"))), "boot id")
	that(t, claim.Start != 0 && claim.PIDNamespace != 0 && claim.Hostname != "", "claim is %+v", claim)
}

// A filesystem that is not trusted: ramfs has kernel locks, and is not on the list.

func TestHostile_UntrustedFilesystem(t *testing.T) { // guards: T3
	if !withMounts(t) {
		return
	}
	dir := mount(t, "ramfs", "")
	path := func(name string) lock.File { return lock.File{Path: filepath.Join(dir, name)} }

	t.Run("RequireKernelLock", func(t *testing.T) {
		file := path("required")
		file.RequireKernelLock = true
		_, err := file.TryAcquire(context.Background())
		that(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(fmt.Sprint(err), "ramfs"), "error is %v", err)
		isAbsent(t, file.Path)
	})

	t.Run("the kernel lock excludes, and the claim is renewed", func(t *testing.T) {
		file := path("held")
		file.StaleAfter = 30 * time.Millisecond
		held := tryHold(t, file)
		first := held.Info()
		that(t, first.KernelLock == "" && !first.RenewedAt.IsZero(), "claim is %+v", first)
		equal(t, notHad(t, file).Evidence, evidence.KernelLockHeld)
		equal(t, notHad(t, file.WithoutKernelLock()).Evidence, evidence.SameProcess)
		eventually(t, "the claim is renewed", func() bool { return getClaim(t, file.Path).RenewedAt.After(first.RenewedAt) })
		letGo(t, held)
		isAbsent(t, file.Path)
	})

	t.Run("loss is found", func(t *testing.T) {
		file := path("lost")
		file.StaleAfter = 30 * time.Millisecond
		held := tryHold(t, file)
		putDeadClaim(t, file.Path)
		promptly(t, "the loss", func() { <-held.Lost() })
		wantErr(t, held.Release(), lock.ErrLost, "Release")
		equal(t, string(getFile(t, file.Path)), deadClaim, "the successor's claim was changed")
	})

	self, dead := ownClaim(t), formerClaim(t)
	for _, test := range []struct {
		name     string
		base     evidence.Claim
		change   func(*evidence.Claim)
		evidence evidence.Evidence // of a dead holder, if it is of StateDead
	}{
		{"a free kernel lock proves nothing", self, func(c *evidence.Claim) { c.PIDNamespace = 1 }, evidence.ForeignNamespace},
		{"with the process gone it does", dead, nil, evidence.PIDReused},
		{"an earlier boot may be another machine's", self, func(c *evidence.Claim) { c.BootID = "another" }, evidence.ForeignHost},
		{"age", self, func(c *evidence.Claim) { c.BootID, c.CreatedAt = "another", time.Now().Add(-3*time.Hour) }, evidence.Aged},
		{"a bare pid may be another machine's", evidence.Claim{PID: 2147483647, CreatedAt: time.Now()}, nil, evidence.ForeignHost},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := path(strings.ReplaceAll(test.name, " ", "-"))
			claim := test.base
			claim.KernelLock = ""
			if test.change != nil {
				test.change(&claim)
			}
			putClaim(t, file.Path, claim)
			status, err := file.Inspect(context.Background())
			that(t, err == nil && status.Evidence == test.evidence, "Inspect: %+v, %v; want %q", status, err, test.evidence)
			if status.State == evidence.Dead {
				letGo(t, tryHold(t, file))
			} else if l := notHad(t, file); l.Evidence != test.evidence {
				t.Errorf("%q, want %q", l.Evidence, test.evidence)
			}
		})
	}

	t.Run("an incomplete claim may be another machine's", func(t *testing.T) {
		file := path("incomplete")
		putFile(t, file.Path, nil, time.Time{})
		mark(t, file.Path)
		equal(t, notHad(t, file).Evidence, evidence.Unreadable)
	})
}
