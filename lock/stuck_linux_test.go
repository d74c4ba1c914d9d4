package lock_test

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"golang.org/x/sys/unix"
)

// Whoever stands in front, and does not move.

// TestStuck_FolderMadeAnew: a wait without a deadline, whose files have gone with their
// folder, or lie elsewhere now, begins again in the new one: also if that happens in its last
// instant before.
func TestStuck_FolderMadeAnew(t *testing.T) {
	if err := exchange(t.TempDir()); err != nil {
		t.Skip("needs a filesystem that exchanges two folders: ", err)
	}
	for name, without := range map[string]bool{"at the sibling": false, "at the lock file": true} {
		for _, when := range []string{"before", "while it waits"} {
			for _, what := range []string{"gone", "elsewhere"} {
				t.Run(name+", "+when+", "+what, func(t *testing.T) {
					parkedIs(t, 0)
					dir := filepath.Join(t.TempDir(), "dir")
					check(t, os.Mkdir(dir, 0o700))
					makeAnew := sync.OnceFunc(func() {
						err := exchange(dir)
						if what == "gone" {
							err = errors.Join(err, os.RemoveAll(dir+".other"))
						}
						if err != nil {
							t.Error(err)
						}
					})
					f := lock.File{Path: filepath.Join(dir, ".lock")}
					holder := start(t, "member", f.Path)
					holder.Do("try", "held")
					if without {
						removeSibling(t, f.Path)
					}
					waiter := make(chan outcome, 1)
					go func() {
						held, err := f.Park(func(step string) {
							if step == lock.StepParks && when == "before" {
								makeAnew()
							}
						}).Acquire(context.Background())
						waiter <- outcome{held, err}
					}()
					if when != "before" {
						parkedIs(t, 1)
						makeAnew()
					}
					letGo(t, getHeld(t, waiter))
					holder.Do("release", "lost")
					wantFree(t, f.Path)
				})
			}
		}
	}
}

// exchange puts an empty folder in the place of another, which lies beside it then. There is
// one at any moment: a wait ends with an error where there is none.
func exchange(dir string) error {
	if err := os.Mkdir(dir+".other", 0o700); err != nil {
		return err
	}
	return unix.Renameat2(unix.AT_FDCWD, dir+".other", unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
}

// TestStuck_Lease: an open that would wait for the end of somebody's lease holds nobody up.
func TestStuck_Lease(t *testing.T) {
	needsLeases(t)
	for _, leased := range []string{".flock", ""} {
		t.Run("lock"+leased, func(t *testing.T) {
			f := queued(t)
			if leased == "" {
				putDeadClaim(t, f.Path)
			} else {
				letGo(t, tryHold(t, f))
			}
			file, err := os.OpenFile(f.Path+leased, os.O_RDONLY, 0)
			check(t, err)
			defer file.Close()
			signals := make(chan os.Signal, 100) // by which the kernel asks for it back
			signal.Notify(signals, unix.SIGIO)
			defer signal.Stop(signals)
			kind := unix.F_RDLCK // broken by who opens the sibling for writing
			if leased == "" {
				kind = unix.F_WRLCK // broken by who opens the lock file at all
			}
			if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, kind); err != nil {
				t.Skip("needs a filesystem with leases: ", err)
			}
			promptly(t, "it", func() {
				if l := notHad(t, f); l.Evidence != lock.EvidenceLeased || l.State != lock.StateUnknown {
					t.Errorf("%+v", l)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, err := f.Acquire(ctx)
				if !errors.Is(err, lock.ErrTimeout) {
					t.Error(err)
				}
			})
			waiter := beginAcquire(t, t.Context(), f)
			if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
				t.Fatal(err)
			}
			letGo(t, getHeld(t, waiter))
			file.Close()
			wantFree(t, f.Path)
		})
	}
}
