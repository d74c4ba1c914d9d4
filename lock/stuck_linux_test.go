package lock_test

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"golang.org/x/sys/unix"
)

// Whoever stands in front, and does not move.

// TestStuck_WithTheSibling: a process that is stopped between two steps has the sibling's lock,
// and not its lock file's. It counts as the holder, however long that takes: others wait, are
// told of it, and are never in together, those who go by flock(1) on the sibling among them.
func TestStuck_WithTheSibling(t *testing.T) { // guards: W4
	for step, does := range map[string]func(t *testing.T, f lock.File, p *child){
		lock.StepSiblingLocked: func(_ *testing.T, _ lock.File, p *child) { p.Do("try", "parked") },
		lock.StepCreated:       func(_ *testing.T, _ lock.File, p *child) { p.Do("try", "parked") },
		lock.StepOwnUnlocked: func(_ *testing.T, _ lock.File, p *child) {
			p.Do("try", "held")
			p.Do("release", "parked")
		},
		lock.StepGranted: func(t *testing.T, f lock.File, p *child) { // with the turnstile
			needsTurnstile(t)
			held := tryHold(t, f)
			p.Do("acquire", "waiting")
			waitedFor(t, f)
			letGo(t, held)
			p.Expect("parked")
		},
	} {
		t.Run(step, func(t *testing.T) {
			f := queuedListed(t)
			stuck := start(t, "member", f.Path)
			stuck.Order("park " + step)
			does(t, f, stuck)
			stuck.Stop()

			var inside atomic.Int32
			leave := make(chan struct{})
			enter := func(in chan<- error) {
				that(t, inside.Add(1) <= 1, "two are in together")
				in <- nil
				<-leave
				inside.Add(-1)
			}
			watched, looks := countingSteps(f, lock.StepLooked)
			waiter, flocked := make(chan error, 1), make(chan error, 1)
			var both sync.WaitGroup
			both.Go(func() {
				if held, err := watched.Acquire(t.Context()); err != nil {
					waiter <- err
				} else {
					enter(waiter)
					letGo(t, held)
				}
			})
			both.Go(func() {
				k, err := os.Open(f.Path + ".flock")
				if err == nil {
					err = unix.Flock(int(k.Fd()), unix.LOCK_EX)
				}
				if err != nil {
					flocked <- err
				} else {
					enter(flocked)
				}
				k.Close()
			})
			eventually(t, "four looks", func() bool { return looks.Load() >= 4 || len(waiter)+len(flocked) > 0 })
			early := len(waiter)+len(flocked) > 0
			that(t, !early, "somebody is in before the one who is stopped")
			if l := notHad(t, f); l.Evidence != evidence.KernelLockHeld || !slices.Equal(pids(l.Processes), []int{stuck.Cmd.Process.Pid}) || !strings.Contains(l.Error(), ", stopped") {
				t.Error(l)
			}
			if s := inspect(t, f); s.State != evidence.Held || s.Evidence != evidence.KernelLockHeld ||
				len(s.Processes) != 1 || s.Processes[0].PID != stuck.Cmd.Process.Pid || !s.Processes[0].Stopped {
				t.Errorf("%+v", s)
			}
			stuck.Continue()
			stuck.Order("go")
			if step == lock.StepOwnUnlocked {
				stuck.Expect("released")
			} else if got := stuck.Answer(); got == "held" {
				stuck.Do("release", "released")
			} else {
				t.Error("the first one has lost its place: ", got)
			}
			if early { // then both get in
				check(t, errors.Join(<-waiter, <-flocked))
			}
			close(leave)
			both.Wait()
			wantFree(t, f.Path)
		})
	}
}

// TestStuck_NotOvertaken: who has the sibling's lock in another way, or the lock, though its
// file was removed, is not overtaken, however long they take.
func TestStuck_NotOvertaken(t *testing.T) { // guards: W4
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
func TestStuck_FolderMadeAnew(t *testing.T) { // guards: W5
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
						noErr(t, err)
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
func TestStuck_Lease(t *testing.T) { // guards: W6
	needsLeases(t)
	for _, leased := range []string{".flock", ""} {
		t.Run("lock"+leased, func(t *testing.T) {
			f := queued(t)
			if leased == "" {
				putDeadClaim(t, f.Path)
			} else {
				letGo(t, tryHold(t, f))
			}
			file := must(os.OpenFile(f.Path+leased, os.O_RDONLY, 0))(t)
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
				wantStatus(t, notHad(t, f).Status, evidence.Unknown, evidence.Leased)
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, err := f.Acquire(ctx)
				wantErr(t, err, lock.ErrTimeout)
			})
			waiter := beginAcquire(t, t.Context(), f)
			check(t, errOf(unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK)))
			letGo(t, getHeld(t, waiter))
			file.Close()
			wantFree(t, f.Path)
		})
	}
}
