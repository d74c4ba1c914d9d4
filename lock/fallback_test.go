package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

func fallbackFile(t *testing.T) lock.File {
	t.Helper()
	return lock.File{Path: filepath.Join(t.TempDir(), "lock")}.WithoutKernelLock()
}

// withKernelLock is the same lock as seen by those who have kernel locks.
func withKernelLock(f lock.File) lock.File { return lock.File{Path: f.Path} }

func notHad(t *testing.T, f lock.File) *lock.LockedError {
	t.Helper()
	held, err := f.TryAcquire(context.Background())
	if err == nil {
		held.Release()
		t.Fatal("there are two holders")
	}
	return asLocked(t, err)
}

func TestFallback_LockFileAloneExcludes(t *testing.T) { // guards: T1
	file := fallbackFile(t)
	held := tryHold(t, file)
	if claim := getClaim(t, file.Path); claim.KernelLock != "" || claim.RenewedAt.IsZero() || !sameClaim(claim, held.Info()) {
		t.Errorf("claim is %+v", claim)
	}
	if l := notHad(t, file); l.State != evidence.Held || l.Evidence != evidence.SameProcess || l.Info == nil || l.Path != file.Path {
		t.Errorf("%+v", l)
	}
	if got := names(t, filepath.Dir(file.Path)); got != "lock" {
		t.Errorf("files are %q, want the lock file alone", got)
	}
	letGo(t, held)
	equal(t, names(t, filepath.Dir(file.Path)), "", "Release left")
	noErr(t, held.Release(), "second Release")
}

func TestFallback_ExcludesThoseWithKernelLocks(t *testing.T) { // guards: T1
	file := fallbackFile(t)
	held := tryHold(t, file)
	equal(t, notHad(t, withKernelLock(file)).Evidence, evidence.SameProcess)
	letGo(t, held)

	held = tryHold(t, withKernelLock(file))
	equal(t, notHad(t, file).Evidence, evidence.SameProcess)
	letGo(t, held)
	letGo(t, tryHold(t, file))
}

// TestFallback_OneAtATime has two oracles: a counter, and a file that only one
// can create.
func TestFallback_OneAtATime(t *testing.T) { // guards: T1
	file := fallbackFile(t)
	occupied := filepath.Join(t.TempDir(), "occupied")
	var inside atomic.Int32
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range 6 {
		mine := file
		if i%3 == 0 {
			mine = withKernelLock(file)
		}
		all.Go(func() {
			for range 20 {
				held, err := mine.Acquire(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				equal(t, inside.Add(1), 1, "holders")
				if f, err := os.OpenFile(occupied, os.O_CREATE|os.O_EXCL, 0o600); err != nil {
					t.Error(err)
				} else {
					f.Close()
					os.Remove(occupied)
				}
				inside.Add(-1)
				noErr(t, held.Release())
			}
		})
	}
	all.Wait()
}

func TestFallback_HolderRenews(t *testing.T) { // guards: T2
	file := fallbackFile(t)
	file.StaleAfter = 30 * time.Millisecond
	held := tryHold(t, file)
	first := held.Info()
	before := must(os.Lstat(file.Path))(t)
	eventually(t, "the claim is renewed", func() bool { return getClaim(t, file.Path).RenewedAt.After(first.RenewedAt) })
	eventually(t, "Info shows the renewal", func() bool { return held.Info().RenewedAt.After(first.RenewedAt) })
	after := must(os.Lstat(file.Path))(t)
	if !after.ModTime().After(before.ModTime()) {
		t.Errorf("modification time went from %s to %s", before.ModTime(), after.ModTime())
	}
	if !os.SameFile(before, after) || after.Size() != before.Size() || after.Mode() != before.Mode() {
		t.Errorf("the renewal changed more than the time: %v %d to %v %d", before.Mode(), before.Size(), after.Mode(), after.Size())
	}
	claim := getClaim(t, file.Path)
	claim.RenewedAt = first.RenewedAt
	that(t, sameClaim(claim, first), "the renewal changed the claim from\n%+v to\n%+v", first, claim)
	notYet(t, held.Lost(), "lost")
	letGo(t, held)
	isAbsent(t, file.Path)
}

// TestFallback_NothingIsRenewedUnderKernelLock: where the kernel proves that the
// holder lives there is nothing to keep up.
func TestFallback_NothingIsRenewedUnderKernelLock(t *testing.T) {
	file := withKernelLock(fallbackFile(t))
	file.StaleAfter = time.Nanosecond
	held := tryHold(t, file)
	defer letGo(t, held)
	if claim := getClaim(t, file.Path); !claim.RenewedAt.IsZero() || claim.KernelLock == "" {
		t.Errorf("claim is %+v", claim)
	}
}

// TestFallback_LostClaim: the holder learns that its claim was taken, and leaves
// alone what is there now.
func TestFallback_LostClaim(t *testing.T) { // guards: T2
	const successor = `{"pid":1,"created_at":"2026-01-02T03:04:05Z","cmd":"successor"}`
	put := func(t *testing.T, path string) { putFile(t, path, []byte(successor), time.Time{}) }
	for name, rob := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) {
			check(t, os.Remove(path))
		},
		"removed, and made anew": func(t *testing.T, path string) {
			check(t, os.Remove(path))
			put(t, path)
		},
		"replaced by renaming": func(t *testing.T, path string) {
			put(t, path+".new")
			check(t, os.Rename(path+".new", path))
		},
		"overwritten in place": put,
		"replaced by a directory": func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, os.Mkdir(path, 0o755))
		},
	} {
		for _, finds := range []string{"while it holds", "at Release"} {
			t.Run(name+", found "+finds, func(t *testing.T) {
				file := fallbackFile(t)
				file.StaleAfter = time.Hour // looks once in ten seconds
				if finds == "while it holds" {
					file.StaleAfter = 30 * time.Millisecond
				}
				held := tryHold(t, file)
				parent, cancel := context.WithCancel(context.Background())
				defer cancel()
				ctx := held.Context(parent)
				if ctx.Err() != nil {
					t.Fatal(ctx.Err())
				}
				rob(t, file.Path)
				if finds == "while it holds" {
					select {
					case <-held.Lost():
					case <-time.After(patience):
						t.Fatal("the loss is never found")
					}
					wantErr(t, errOf(held.Fence()), lock.ErrLost, "Fence")
				}
				before := treeState(t, filepath.Dir(file.Path))
				wantErr(t, held.Release(), lock.ErrLost, "Release")
				sameTree(t, before, treeState(t, filepath.Dir(file.Path)))
				select {
				case <-held.Lost():
				default:
					t.Error("Lost is not closed")
				}
				promptly(t, "the context", func() { <-ctx.Done() })
				if ctx.Err() != context.Canceled || !errors.Is(context.Cause(ctx), lock.ErrLost) {
					t.Errorf("context ended with %v, cause %v", ctx.Err(), context.Cause(ctx))
				}
				that(t, parent.Err() == nil, "the parent was ended too")
				if late := held.Context(parent); !errors.Is(context.Cause(late), lock.ErrLost) {
					t.Errorf("a context asked for afterwards: cause %v", context.Cause(late))
				}
				noErr(t, held.Release(), "second Release")
				sameTree(t, before, treeState(t, filepath.Dir(file.Path)))
			})
		}
	}
}

// TestHeldContext_OutlivesItsVariable: whoever keeps only the channel still waits
// for the loss, and for nothing else.
func TestHeldContext_OutlivesItsVariable(t *testing.T) { // guards: S11
	held := tryHold(t, fallbackFile(t))
	defer letGo(t, held)
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := held.Context(parent).Done()

	for range 3 {
		collectGarbage(t)
	}
	notYet(t, done, "the context ended though the lock is held")
}

// collectGarbage returns when clean-ups that were due have run.
func collectGarbage(t *testing.T) {
	t.Helper()
	collected := make(chan struct{})
	func() {
		runtime.AddCleanup(new([64]byte), func(c chan struct{}) { close(c) }, collected)
	}()
	eventually(t, "garbage is collected", func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	})
}

// A deadline is a context that expires when it is told to.
type deadline struct {
	context.Context
	passed chan struct{}
	once   sync.Once
}

func newDeadline() *deadline {
	return &deadline{Context: context.Background(), passed: make(chan struct{})}
}

func (d *deadline) pass()                 { d.once.Do(func() { close(d.passed) }) }
func (d *deadline) Done() <-chan struct{} { return d.passed }

func (d *deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestFallback_GivesUpCleanly(t *testing.T) { // guards: W9
	file := fallbackFile(t)
	held := tryHold(t, file)
	defer letGo(t, held)
	before := treeState(t, filepath.Dir(file.Path))
	ctx := newDeadline()
	_, err := file.WithClock(func() time.Time {
		ctx.pass() // while it is at work
		return time.Now()
	}).Acquire(ctx)
	if l := asLocked(t, err); l.Info == nil || l.Info.Nonce != held.Info().Nonce {
		t.Errorf("holder is %+v", l.Info)
	}
	that(t, errors.Is(err, lock.ErrTimeout) && errors.Is(err, context.DeadlineExceeded), "error is %v", err)
	sameTree(t, before, treeState(t, filepath.Dir(file.Path)))
}

func TestFallback_RequireKernelLock(t *testing.T) { // guards: T3
	file := fallbackFile(t)
	file.RequireKernelLock = true
	for name, acquire := range map[string]func(context.Context) (*lock.FileHold, error){
		"TryAcquire": file.TryAcquire,
		"Acquire":    file.Acquire,
	} {
		_, err := acquire(context.Background())
		wantErr(t, err, errors.ErrUnsupported, name)
		that(t, !errors.As(err, new(*lock.LockedError)), "%s: %v is not contention", name, err)
		that(t, err == nil || strings.Contains(err.Error(), file.Path), "%s: %q does not say where", name, err)
	}
	equal(t, names(t, filepath.Dir(file.Path)), "", "left behind")
}

func TestFallback_ForeignHost(t *testing.T) { // guards: E6
	now := time.Now()
	foreign := ownClaim(t)
	foreign.Hostname, foreign.BootID, foreign.KernelLock, foreign.Nonce = "elsewhere", "another-boot", "", "FOREIGN"
	for _, test := range []struct {
		name             string
		created, renewed time.Duration // ago
		staleAfter       time.Duration
		dead             bool
	}{
		{"aged", 2 * time.Hour, 0, time.Hour, true},
		{"aged, by default", 2*time.Hour + time.Minute, 0, 0, true},
		{"young", 30 * time.Minute, 0, time.Hour, false},
		{"renewed a while ago", 48 * time.Hour, 2 * time.Hour, time.Hour, true},
		{"renewed", 48 * time.Hour, 30 * time.Minute, time.Hour, false},
		{"aged, age never counts", 48 * time.Hour, 0, -1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := fallbackFile(t)
			file.StaleAfter = test.staleAfter
			claim := foreign
			claim.CreatedAt = now.Add(-test.created)
			if test.renewed != 0 {
				claim.RenewedAt = now.Add(-test.renewed)
			}
			putClaim(t, file.Path, claim)
			if !test.dead {
				before := treeState(t, filepath.Dir(file.Path))
				equal(t, notHad(t, file).Evidence, evidence.ForeignHost)
				sameTree(t, before, treeState(t, filepath.Dir(file.Path)))
				return
			}
			held := tryHold(t, file)
			equal(t, getClaim(t, file.Path).Nonce, held.Info().Nonce, "on disk")
			letGo(t, held)
		})
	}
}

// TestRenew_Due: a holder renews its claim once in a third of StaleAfter, however often it
// looks; with the default of two hours, too.
func TestRenew_Due(t *testing.T) {
	file := fallbackFile(t)
	file.StaleAfter = 0
	held := tryHold(t, file)
	defer letGo(t, held)
	begun := time.Now()
	renewal := lock.NewRenewal(held, begun)
	renewals, last := 0, held.Info().RenewedAt
	for tick := 1; tick <= 6*60*2; tick++ { // two hours
		if !renewal.Tick(begun.Add(time.Duration(tick) * 10 * time.Second)) {
			t.Fatal("lost")
		}
		if now := getClaim(t, file.Path).RenewedAt; now.After(last) {
			renewals, last = renewals+1, now
		}
	}
	that(t, renewals == 3, "renewed %d times in two hours", renewals)
	// A suspended machine: the monotonic clock stood still, the wall clock did not.
	if !renewal.Tick(begun.Round(0).Add(5 * time.Hour)) {
		t.Fatal("lost")
	}
	if now := getClaim(t, file.Path).RenewedAt; !now.After(last.Add(2 * time.Hour)) {
		t.Errorf("after a suspend the claim says %v, and said %v", now, last)
	}
}

// TestRenew_Lost: a holder that finds its claim gone, or could not look for as long as it takes
// to be taken for dead, has lost the lock; one that can't look for a moment has not.
func TestRenew_Lost(t *testing.T) {
	file := fallbackFile(t)
	file.StaleAfter = time.Hour
	held := tryHold(t, file)
	defer held.Release()
	begun := time.Now()
	renewal := lock.NewRenewal(held, begun)
	folder := filepath.Dir(file.Path)
	check(t, os.Rename(folder, folder+".away"))
	check(t, os.WriteFile(folder, nil, 0o600)) // so that looking is an error: no folder
	defer os.Rename(folder+".away", folder)
	defer os.Remove(folder)
	that(t, renewal.Tick(begun.Add(59*time.Minute)), "lost, though it was trusted not long ago")
	that(t, !renewal.Tick(begun.Add(61*time.Minute)), "not lost, though nobody could look for StaleAfter")
	select {
	case <-held.Lost():
	default:
		t.Error("the loss is not told")
	}
}
