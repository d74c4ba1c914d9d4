package lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// A lock file answers for itself, whatever becomes of the sibling.

func removeSibling(t *testing.T, path string) {
	t.Helper()
	check(t, os.Remove(path+".flock"))
}

// TestOwnLock_ReadersOutliveTheFirst: the readers' file names the first one, who has gone;
// the others keep writers out, with the sibling or without.
func TestOwnLock_ReadersOutliveTheFirst(t *testing.T) { // guards: A3
	for _, gone := range []string{"left", "killed"} {
		t.Run(gone, func(t *testing.T) {
			f := queued(t)
			first, second := start(t, "member", f.Path), start(t, "member", f.Path)
			first.Do("shared", "held")
			second.Do("shared", "held")
			if gone == "left" {
				first.Do("release", "released")
			} else {
				first.Kill()
			}
			removeSibling(t, f.Path)
			wantLocked(t, f.Path)
			wantStatus(t, inspect(t, f), evidence.Held, evidence.KernelLockHeld)
			waiter := beginAcquire(t, t.Context(), f)
			parkedIs(t, 1) // in the kernel, at the lock file
			second.Do("release", "released")
			letGo(t, getHeld(t, waiter))
			wantFree(t, f.Path)
		})
	}
}

// TestOwnLock_LeftReaderLives: the last reader is killed; the first, which the file names,
// lives, though it has left.
func TestOwnLock_LeftReaderLives(t *testing.T) { // guards: E2
	f := queued(t)
	first, last := start(t, "member", f.Path), start(t, "member", f.Path)
	first.Do("shared", "held")
	last.Do("shared", "held")
	first.Do("release", "released")
	removeSibling(t, f.Path)
	last.Kill()
	takeOver(t, f.Path)
	wantFree(t, f.Path)
	first.Kill()
}

// TestOwnLock_WriterWhoGaveUp: a writer waits for readers at their file, and gives up. When
// the last of them dies, nobody is left to remove it but the wait that stayed.
func TestOwnLock_WriterWhoGaveUp(t *testing.T) { // guards: A5
	f := queued(t)
	reader := start(t, "member", f.Path)
	reader.Do("shared", "held")
	removeSibling(t, f.Path)
	ctx, cancel := context.WithCancel(t.Context())
	writer := beginAcquire(t, ctx, f)
	parkedIs(t, 1)
	cancel()
	if o := get(t, writer); !errors.Is(o.err, context.Canceled) {
		t.Fatal(o.err)
	}
	reader.Kill()
	parkedIs(t, 0)
	isAbsent(t, f.Path)
	wantFree(t, f.Path)
}

// TestOwnLock_AdoptsWait: who comes after one who gave up waiting for a lock file takes
// over their place in the kernel's queue.
func TestOwnLock_AdoptsWait(t *testing.T) { // guards: W1
	f := queued(t)
	holder := start(t, "member", f.Path)
	holder.Do("try", "held")
	removeSibling(t, f.Path)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		waiter := beginAcquire(t, ctx, f)
		parkedIs(t, 1)
		cancel()
		if o := get(t, waiter); !errors.Is(o.err, context.Canceled) {
			t.Fatal(o.err)
		}
	}
	last := beginAcquire(t, t.Context(), f)
	holder.Do("release", "released")
	letGo(t, getHeld(t, last))
	wantFree(t, f.Path)
}

// TestOwnLock_Replaced: between the steps of one the path comes to lead to another's file.
// It is neither removed nor replaced, by whatever way out.
func TestOwnLock_Replaced(t *testing.T) { // guards: B1, B2, B4
	other := fmt.Sprintf(`{"pid":%d,"created_at":%q}`, os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	replace := func(t *testing.T, path string) {
		noErr(t, errors.Join(os.WriteFile(path+".new", []byte(other), 0o600), os.Rename(path+".new", path)))
	}
	for _, test := range []struct {
		name, step string
		marker     bool // it is the marker that is replaced
		run        func(t *testing.T, f lock.File) error
	}{
		{"claiming fails", lock.StepChecked, false, func(t *testing.T, f lock.File) error {
			f.Format = &lock.Format{Fields: func(evidence.Claim) map[string]string { return map[string]string{"pid": "1"} }}
			return second(f.TryAcquire(t.Context()))
		}},
		{"releasing", lock.StepClaimed, false, func(t *testing.T, f lock.File) error {
			return tryHold(t, f).Release()
		}},
		{"leaving", lock.StepSharedDropped, false, func(t *testing.T, f lock.File) error {
			held, err := sharing(f).TryAcquire(t.Context())
			if err != nil {
				return err
			}
			return held.Release()
		}},
		{"leaving, alone", lock.StepAlone, false, func(t *testing.T, f lock.File) error {
			held, err := sharing(f).TryAcquire(t.Context())
			if err != nil {
				return err
			}
			return held.Release()
		}},
		{"reclaiming", lock.StepReread, false, func(t *testing.T, f lock.File) error {
			leaveDeadClaim(t, f.Path)
			return second(f.TryAcquire(t.Context()))
		}},
		{"its marker", lock.StepMarkerWritten, true, func(t *testing.T, f lock.File) error {
			leaveDeadClaim(t, f.Path)
			return second(f.Break(t.Context()))
		}},
		{"a dead marker", lock.StepMarkerReread, true, func(t *testing.T, f lock.File) error {
			leaveDeadClaim(t, f.Path)
			putDeadClaim(t, f.Path+".reclaim")
			return second(f.TryAcquire(t.Context()))
		}},
		{"breaking by force", lock.StepReread, false, func(t *testing.T, f lock.File) error {
			putClaim(t, f.Path, evidence.Claim{PID: 1, CreatedAt: time.Now(), Nonce: "N", BootID: "b", Hostname: "elsewhere"})
			return second(f.BreakForce(t.Context(), "N"))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.step == lock.StepChecked {
				needsMarks(t)
			}
			f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
			path := f.Path
			if test.marker {
				path += ".reclaim"
			}
			replaced := false
			err := test.run(t, f.Park(func(step string) {
				if step == test.step && !replaced {
					replaced = true
					replace(t, path)
				}
			}))
			if !replaced {
				t.Fatalf("never came to %q: %v", test.step, err)
			}
			if got := string(getFile(t, path)); got != other {
				t.Errorf("what was there is now %q (%v)", got, err)
			}
		})
	}
}

// TestOwnLock_ReplacedAtALook: somebody looks at a lock file that was just made, and its
// maker gives up; meanwhile the path has come to lead to another's file. That one stays.
func TestOwnLock_ReplacedAtALook(t *testing.T) {
	needsMarks(t)
	f := queued(t)
	other := fmt.Sprintf(`{"pid":%d,"created_at":%q}`, os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	var look *platform.File
	notHad(t, f.Park(func(step string) {
		if step != lock.StepCreated || look != nil {
			return
		}
		var err error
		if look, err = lockFile(f.Path, platform.Exclusive); err == nil {
			err = errors.Join(os.WriteFile(f.Path+".new", []byte(other), 0o600), os.Rename(f.Path+".new", f.Path))
		}
		noErr(t, err)
	}))
	parkedIs(t, 1) // who waits to remove what was made
	check(t, look.Close())
	parkedIs(t, 0)
	equal(t, string(getFile(t, f.Path)), other, "what was there is now")
}

// TestOwnLock_GoneWhileJoining: a reader waits for a readers' file that somebody looks at,
// and it is taken away. Its lock is nobody's then, and the reader makes a file of its own.
func TestOwnLock_GoneWhileJoining(t *testing.T) {
	f := queued(t)
	dead := start(t, "member", f.Path)
	dead.Do("shared", "held")
	dead.Kill()
	look := must(lockFile(f.Path, platform.Exclusive))(t)
	reader := beginShared(t, f)
	parkedIs(t, 1)
	check(t, errors.Join(os.Remove(f.Path), look.Close()))
	letGo(t, getHeld(t, reader))
	wantFree(t, f.Path)
}

// TestOwnLock_HalfAClaim: while one claims, its sibling is replaced, and another, who stands
// at the new one, takes the half claim for a dead one's. The slow one finds out, and the
// other's claim stays as it is.
func TestOwnLock_HalfAClaim(t *testing.T) { // guards: B1
	for _, step := range []string{lock.StepCreated, lock.StepOwnLocked, lock.StepChecked} {
		for _, mode := range []string{"exclusive", "shared"} {
			t.Run(step+", "+mode, func(t *testing.T) {
				f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
				var rival *lock.FileHold
				var rerr error
				slow := f.Park(func(at string) {
					if at == step && rival == nil && rerr == nil {
						removeSibling(t, f.Path)
						rival, rerr = f.TryAcquire(t.Context())
					}
				})
				try := slow.TryAcquire
				if mode == "shared" {
					try = sharing(slow).TryAcquire
				}
				held, err := try(t.Context())
				if (held == nil) == (rival == nil) {
					t.Fatalf("holders: %v (%v), and the rival %v (%v)", held != nil, err, rival != nil, rerr)
				}
				if rival != nil {
					if l := asLocked(t, err); l.Info == nil || l.Info.Nonce != rival.Info().Nonce {
						t.Errorf("locked by %+v", l.Info)
					}
					equal(t, getClaim(t, f.Path).Nonce, rival.Info().Nonce, "on disk")
					held = rival
				}
				letGo(t, held)
				isAbsent(t, f.Path)
			})
		}
	}
}

// TestOwnLock_UntilItIsGone: nobody gets the lock file's own lock as long as it has its name.
func TestOwnLock_UntilItIsGone(t *testing.T) { // guards: A1, A5
	// The steps after which it has its name, and its own lock is taken.
	named := lock.AcquireSteps[max(slices.Index(lock.AcquireSteps, lock.StepCreated), slices.Index(lock.AcquireSteps, lock.StepOwnLocked)):]
	for _, mode := range []string{"exclusive", "shared"} {
		t.Run(mode, func(t *testing.T) {
			f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
			looked := 0
			f = f.Park(func(step string) {
				if slices.Contains(named, step) || step == lock.StepOwned || step == lock.StepAlone {
					looked++
					equal(t, peek(f.Path), platform.ErrBusy, step)
				}
			})
			acquire := inMode(f, mode == "shared")
			held := must(acquire(t.Context()))(t)
			letGo(t, held)
			that(t, looked > len(named), "looked %d times", looked)
		})
	}
}

// TestOwnLock_CreatorMeetsALook: somebody looks at a lock file that was made this instant,
// before its maker has its lock. Who waits for the lock waits for that, and makes no other
// file; who does not wait leaves none behind.
func TestOwnLock_CreatorMeetsALook(t *testing.T) { // guards: A1
	needsMarks(t)
	meet := func(t *testing.T) (f lock.File, look **platform.File, made *int) {
		f = queued(t)
		look, made = new(*platform.File), new(int)
		return f.Park(func(step string) {
			if step != lock.StepCreated {
				return
			}
			if *made++; *look == nil {
				var err error
				if *look, err = lockFile(f.Path, platform.Exclusive); err != nil {
					t.Error(err)
				}
			}
		}), look, made
	}
	t.Run("waiting", func(t *testing.T) {
		f, look, made := meet(t)
		waiter := beginAcquire(t, t.Context(), f)
		parkedIs(t, 1)
		check(t, (*look).Close())
		letGo(t, getHeld(t, waiter))
		equal(t, *made, 1, "lock files were made")
		wantFree(t, f.Path)
	})
	t.Run("trying", func(t *testing.T) {
		f, look, _ := meet(t)
		if l := notHad(t, f); l.Evidence != evidence.KernelLockHeld || l.Info != nil {
			t.Errorf("%+v", l)
		}
		check(t, (*look).Close())
		eventually(t, "what it made is gone", func() bool { _, err := os.Lstat(f.Path); return errors.Is(err, os.ErrNotExist) })
		wantFree(t, f.Path)
	})
}

// TestOwnLock_LockedByOthers: a file at the path that another program locks in its own way
// is in use, whatever is in it, and however old it is.
func TestOwnLock_LockedByOthers(t *testing.T) { // guards: A2
	for name, hold := range map[string]func(t *testing.T, path string) (drop func()){
		"flock": func(t *testing.T, path string) func() {
			k := must(lockFile(path, platform.Exclusive))(t)
			return func() { k.Close() }
		},
		"flock, shared": func(t *testing.T, path string) func() {
			k := must(lockFile(path, platform.Shared))(t)
			return func() { k.Close() }
		},
		"byte range": func(t *testing.T, path string) func() {
			k, err := takeTurnstile(path) // as good as any
			if err != nil {
				t.Skip("needs a system that tells of them: ", err)
			}
			return func() { k.Close() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: time.Minute}
			putFile(t, f.Path, nil, time.Now().Add(-time.Hour))
			drop := hold(t, f.Path)
			before := treeState(t, filepath.Dir(f.Path), ".lock.flock")
			wantStatus(t, notHad(t, f).Status, evidence.Held, evidence.KernelLockHeld)
			wantStatus(t, inspect(t, f), evidence.Held, evidence.KernelLockHeld)
			sameTree(t, before, treeState(t, filepath.Dir(f.Path), ".lock.flock"))
			drop()
			letGo(t, tryHold(t, f)) // by age
		})
	}
}

// TestOwnLock_LooksTouchNoFreeLock: an inspector that is stopped in the instant in which it
// has a lock file's own lock hinders nobody where there is no lock file.
func TestOwnLock_LooksTouchNoFreeLock(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	peeked := false
	looker := f.Park(func(step string) { peeked = peeked || step == lock.StepPeeked })
	letGo(t, tryHold(t, f)) // there is a sibling
	if s, err := looker.Inspect(t.Context()); err != nil || s.State != evidence.Free || peeked {
		t.Errorf("%+v, %v; touched: %v", s, err, peeked)
	}
	held := tryHold(t, f)
	if s, err := looker.Inspect(t.Context()); err != nil || s.State != evidence.Held || peeked && inKernelList(t, f.Path) {
		t.Errorf("held: %+v, %v; touched: %v", s, err, peeked)
	}
	letGo(t, held)
	leaveDeadClaim(t, f.Path)
	meet := false
	looker = f.Park(func(step string) {
		if step == lock.StepPeeked { // a dead holder's lock is not to be had meanwhile, and that is said
			meet = true
			equal(t, notHad(t, f).Evidence, evidence.KernelLockHeld)
		}
	})
	if s, err := looker.Inspect(t.Context()); err != nil || s.State != evidence.Dead || !meet {
		t.Errorf("dead: %+v, %v; touched: %v", s, err, meet)
	}
	takeOver(t, f.Path)
}

// inKernelList reports whether the kernel's list has the lock of a file.
func inKernelList(t *testing.T, path string) bool {
	t.Helper()
	locks, err := platform.ListKernelLocks()
	if err != nil {
		return false
	}
	id, err := platform.IdentifyFile(path)
	return err == nil && locks.Held(id)
}

// TestOwnLock_ReaderWhoGaveUp: readers have died, and somebody looks at their file just when
// a further one comes. He waits, and gives up; when his wait comes back nonetheless, he is
// the last reader.
func TestOwnLock_ReaderWhoGaveUp(t *testing.T) { // guards: R2
	f := queued(t)
	reader := start(t, "member", f.Path)
	reader.Do("shared", "held")
	reader.Kill()
	look := must(lockFile(f.Path, platform.Exclusive))(t)
	ctx, cancel := context.WithCancel(t.Context())
	waiter := begin(t, f, true, func() (*lock.FileHold, error) { return sharing(f).Acquire(ctx) })
	parkedIs(t, 1)
	cancel()
	if o := get(t, waiter); !errors.Is(o.err, context.Canceled) {
		t.Fatal(o.err)
	}
	check(t, look.Close())
	parkedIs(t, 0)
	isAbsent(t, f.Path)
	wantFree(t, f.Path)
}

// TestOwnLock_NotJoined: a readers' file that somebody has put back from a copy, and one
// that says it was released, are nobody's, and nobody joins them; nor do readers join the
// file of a writer who is dead.
func TestOwnLock_NotJoined(t *testing.T) { // guards: B2, E0
	for name, change := range map[string]func(path string, data []byte) ([]byte, error){
		"copied": func(path string, data []byte) ([]byte, error) {
			return data, errors.Join(os.WriteFile(path+".new", data, 0o600), os.Chmod(path+".new", 0o600|os.ModeSticky),
				os.Rename(path+".new", path))
		},
		"released": func(path string, data []byte) ([]byte, error) {
			data = bytes.Replace(data, []byte(`"released":false`), []byte(`"released":true `), 1)
			return data, os.WriteFile(path, data, 0o600)
		},
		"a writer's": nil,
	} {
		t.Run(name, func(t *testing.T) {
			f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
			dead, how := start(t, "member", f.Path), "shared"
			if change == nil {
				how = "try"
			}
			dead.Do(how, "held")
			dead.Kill()
			data, err := os.ReadFile(f.Path)
			if err == nil && change != nil {
				data, err = change(f.Path, data)
			}
			check(t, err)
			held := must(sharing(f).TryAcquire(t.Context()))(t)
			if now, err := os.ReadFile(f.Path); err != nil || bytes.Equal(now, data) {
				t.Errorf("%s, %v: joined", now, err)
			}
			letGo(t, held)
			wantFree(t, f.Path)
		})
	}
}

// TestOwnLock_GaveUpOnAnothers: who gave up waiting for the lock of a file, and gets it
// after all, removes no claim of a living program which that file has become.
func TestOwnLock_GaveUpOnAnothers(t *testing.T) { // guards: B4
	for _, mode := range []platform.Mode{platform.Exclusive, platform.Shared} {
		f := queued(t)
		text := fmt.Sprintf(`{"pid":%d,"created_at":%q}`, os.Getpid(), time.Now().UTC().Format(time.RFC3339))
		check(t, os.WriteFile(f.Path, []byte(text), 0o600))
		theirs := must(lockFile(f.Path, platform.Exclusive))(t)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := begin(t, f, mode == platform.Shared, func() (*lock.FileHold, error) {
			if mode == platform.Shared {
				return sharing(f).Acquire(ctx)
			}
			return f.Acquire(ctx)
		})
		parkedIs(t, 1)
		cancel()
		if o := get(t, waiter); !errors.Is(o.err, context.Canceled) {
			t.Fatal(o.err)
		}
		check(t, theirs.Close())
		parkedIs(t, 0)
		equal(t, string(must(os.ReadFile(f.Path))(t)), text, "mode", mode)
	}
}

// TestOwnLock_MarkerIsNamed: with a marker that can't be judged beside a dead claim, those
// who look, and those who waited, are told what is in the way.
func TestOwnLock_MarkerIsNamed(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	leaveDeadClaim(t, f.Path)
	marker := evidence.Claim{PID: 1, CreatedAt: time.Now(), Hostname: "elsewhere", Cmd: "reclaiming"}
	putClaim(t, f.Path+".reclaim", marker)
	s, err := f.Inspect(t.Context())
	if err != nil || s.State != evidence.Unknown || s.Evidence != evidence.BeingReclaimed || s.Info == nil || s.Info.Cmd != "reclaiming" {
		t.Errorf("%+v, %v", s, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = f.Acquire(ctx)
	if l := asLocked(t, err); !errors.Is(err, lock.ErrTimeout) || l.Evidence != evidence.BeingReclaimed || l.Info == nil || l.Info.Cmd != "reclaiming" {
		t.Errorf("%+v", l)
	}
	contains(t, err.Error(), ".reclaim", err)
	check(t, os.Remove(f.Path+".reclaim"))
	takeOver(t, f.Path)
}

// TestOwnLock_LeftoverMarker: a reclaimer died after it had removed the dead claim. Whoever
// has the lock next removes its marker, so that programs that know only that can go on; but
// nobody else's.
func TestOwnLock_LeftoverMarker(t *testing.T) { // guards: A4
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	putDeadClaim(t, f.Path+".reclaim")
	letGo(t, tryHold(t, f))
	isAbsent(t, f.Path+".reclaim")

	leaveDeadClaim(t, f.Path)
	reclaimer := start(t, "member", f.Path)
	reclaimer.Order("park " + lock.StepDeadRemoved)
	reclaimer.Do("try", "parked")
	held, err := f.TryAcquire(t.Context())
	if err == nil {
		t.Fatal("got in before the reclaimer, who has the sibling: ", held.Release())
	}
	noErr(t, errOf(os.Lstat(f.Path+".reclaim")), "the reclaimer's marker")
	removeSibling(t, f.Path)
	letGo(t, tryHold(t, f)) // it got in before, as it may
	noErr(t, errOf(os.Lstat(f.Path+".reclaim")), "a living process's marker")
	reclaimer.Kill()
	letGo(t, tryHold(t, f))
	isAbsent(t, f.Path+".reclaim")
}
