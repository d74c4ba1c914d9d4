package lock_test

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"golang.org/x/sys/unix"
)

// Whoever stands in front, and does not move.

// countingSteps counts the steps that the lock goes through.
func countingSteps(f lock.File, step string) (lock.File, *atomic.Int32) {
	var n atomic.Int32
	return f.Park(func(at string) {
		if at == step {
			n.Add(1)
		}
	}), &n
}

// TestStuck_AtTheTurnstile: somebody stands at the turnstile, and does not take the lock
// that is free, as they were stopped. They are overtaken, and that they are stuck is
// remembered until they move: the price is paid once.
func TestStuck_AtTheTurnstile(t *testing.T) {
	needsTurnstile(t)
	for name, stand := range map[string]func(t *testing.T, f lock.File) (move func()){
		"stopped on the way in": func(t *testing.T, f lock.File) func() {
			// Behind a holder, so first in the queue; stopped; and the holder goes.
			held := tryHold(t, f)
			first := start(t, "member", f.Path)
			first.Do("acquire", "waiting")
			waitedFor(t, f)
			first.Stop()
			letGo(t, held)
			return func() {
				first.Continue()
				first.Expect("held")
				first.Do("release", "released")
			}
		},
		"a shared wait that was given up": func(t *testing.T, f lock.File) func() {
			held := tryHold(t, f)
			first := start(t, "member", f.Path)
			first.Do("give up shared", "waiting")
			first.Expect("locked: kernel lock held")
			first.Stop()
			letGo(t, held)
			return func() {
				first.Continue()
				first.Order("shared") // which takes the wait that was left behind, or comes after it
				for first.Answer() == "waiting" {
				}
				first.Do("release", "released")
			}
		},
		"anybody's byte lock": func(t *testing.T, f lock.File) func() {
			letGo(t, tryHold(t, f)) // makes the sibling
			turnstile, err := takeTurnstile(f.Path + ".flock")
			check(t, err)
			return func() { turnstile.Close() }
		},
	} {
		for _, mode := range []string{"exclusive", "shared"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				f := queued(t)
				move := stand(t, f)
				f, looks := countingSteps(f, lock.StepLooked)
				acquire := inMode(f, mode == "shared")
				for range 20 {
					held, err := acquire(t.Context())
					check(t, err)
					letGo(t, held)
				}
				// The first had to look, twice at least; the others had no need to.
				if n := looks.Load(); n > 10 {
					t.Errorf("%d looks for 20 acquisitions", n)
				}
				// Once it has moved, the queue is what it was.
				move()
				parkedIs(t, 0)
				again := looks.Load()
				for range 20 {
					held, err := acquire(t.Context())
					check(t, err)
					letGo(t, held)
				}
				if n := looks.Load() - again; n != 0 {
					t.Errorf("%d looks for a free lock", n)
				}
				wantFree(t, f.Path)
			})
		}
	}
}

// TestStuck_WithTheSibling: somebody has the sibling's lock, and nothing else: stopped on
// the way in, or out. They are overtaken, and find out.
func TestStuck_WithTheSibling(t *testing.T) {
	needsKernelList(t)
	for _, step := range []string{lock.StepSiblingLocked, lock.StepCreated, lock.StepOwnUnlocked} {
		t.Run(step, func(t *testing.T) {
			f := queued(t)
			stuck := start(t, "member", f.Path)
			stuck.Order("park " + step)
			if step == lock.StepOwnUnlocked {
				stuck.Do("try", "held")
				stuck.Do("release", "parked")
			} else {
				stuck.Do("try", "parked")
			}
			f, looks := countingSteps(f, lock.StepLooked)
			acquires := []func(context.Context) (*lock.FileHold, error){f.Acquire, f.AcquireShared, f.TryAcquire, f.TryAcquireShared}
			for range 5 {
				for _, acquire := range acquires {
					held, err := acquire(t.Context())
					check(t, err)
					letGo(t, held)
				}
			}
			// The first had to look, twice at least; the others had no need to, nor have
			// those who wait for one that got past.
			held, err := f.Acquire(t.Context())
			check(t, err)
			next := beginAcquire(t, t.Context(), f)
			parkedIs(t, 2) // one of them at the sibling, left behind
			letGo(t, held)
			held = getHeld(t, next)
			if n := looks.Load(); n > 10 {
				t.Errorf("%d looks for 22 acquisitions", n)
			}
			stuck.Order("go")
			if step == lock.StepOwnUnlocked {
				stuck.Expect("released")
			} else {
				stuck.Expect("locked: kernel lock held")
			}
			letGo(t, held)
			wantFree(t, f.Path)
		})
	}
}

// TestStuck_NotOvertaken: who has the sibling's lock in another way, or the lock, though its
// file was removed, is not overtaken, however long they take.
func TestStuck_NotOvertaken(t *testing.T) {
	for name, hold := range map[string]func(t *testing.T, f lock.File) (end func()){
		"flock(1)": func(t *testing.T, f lock.File) func() {
			letGo(t, tryHold(t, f))
			k, err := os.Open(f.Path + ".flock")
			if err == nil {
				err = syscall.Flock(int(k.Fd()), syscall.LOCK_EX)
			}
			check(t, err)
			return func() { k.Close() }
		},
		"lock file removed": func(t *testing.T, f lock.File) func() {
			holder := start(t, "member", f.Path)
			holder.Do("try", "held")
			check(t, os.Remove(f.Path))
			return func() { holder.Do("release", "lost") }
		},
		"readers' lock file removed": func(t *testing.T, f lock.File) func() {
			holder := start(t, "member", f.Path)
			holder.Do("try-shared", "held")
			check(t, os.Remove(f.Path))
			return func() { holder.Do("release", "lost") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := queued(t)
			end := hold(t, f)
			watched, looks := countingSteps(f, lock.StepLooked)
			waiter := beginAcquire(t, t.Context(), watched)
			eventually(t, "four looks", func() bool { return looks.Load() >= 4 })
			select {
			case o := <-waiter:
				t.Fatal("overtaken: ", o.held, o.err)
			default:
			}
			end()
			letGo(t, getHeld(t, waiter))
			wantFree(t, f.Path)
		})
	}
}

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
