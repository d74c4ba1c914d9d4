package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// beginAwait starts to wait until a lock is free, and returns once that stands in the queue.
func beginAwait(t *testing.T, ctx context.Context, f lock.File) <-chan outcome {
	t.Helper()
	return begin(t, f, false, func() (*lock.FileHold, error) { return nil, f.AwaitFree(ctx) })
}

func wantAwaited(t *testing.T, came <-chan outcome) {
	t.Helper()
	check(t, get(t, came).err)
}

// TestAwaitFree_Line: it stands in the queue, behind who came before, and before who comes
// after. No program ever sees a lock file of its own.
func TestAwaitFree_Line(t *testing.T) { // guards: W7
	f := queued(t)
	held := tryHold(t, f)
	first := beginAcquire(t, t.Context(), f)
	awaited := beginAwait(t, t.Context(), f.Park(func(step string) {
		that(t, step != lock.StepSiblingLocked || !testkit.Exists(f.Path), "there is a lock file in its turn")
	}))
	last := beginAcquire(t, t.Context(), f)
	parkedIs(t, 1)
	letGo(t, held)
	held = getHeld(t, first)
	equal(t, len(awaited), 0, "it has not waited for who came before")
	letGo(t, held)
	held = getHeld(t, last)
	wantAwaited(t, awaited) // beside the last one, who came later
	letGo(t, held)
	wantFree(t, f.Path)
}

// TestAwaitFree_OfOthers: the same among processes.
func TestAwaitFree_OfOthers(t *testing.T) {
	needsKernelList(t)
	f := queued(t)
	holder, last := start(t, "member", f.Path), start(t, "member", f.Path)
	holder.Do("try", "held")
	awaited := beginAwait(t, t.Context(), f)
	waitedFor(t, f)
	last.Do("acquire", "waiting")
	holder.Do("release", "released")
	last.Expect("held")
	wantAwaited(t, awaited)
	last.Do("release", "released")
	wantFree(t, f.Path)
}

// TestAwaitFree_Untouched: where nobody has acquired anything yet, nothing is made.
func TestAwaitFree_Untouched(t *testing.T) {
	dir := t.TempDir()
	check(t, lock.File{Path: filepath.Join(dir, ".lock")}.AwaitFree(t.Context()))
	f := must(lock.Dir{Path: filepath.Join(dir, "locks")}.At(lock.Key{Space: "a", Name: "b"}))(t)
	check(t, f.AwaitFree(t.Context()))
	equal(t, names(t, dir), "", "were made")
	if err := (lock.File{Path: filepath.Join(dir, "no", ".lock")}).AwaitFree(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v; want that the folder is not there", err)
	}
	wantErr(t, (lock.File{Path: "a\x00b"}).AwaitFree(t.Context()), lock.ErrInvalidName)
}

// TestAwaitFree_Dead: a dead holder's lock is free, and left as it is. What a reader has left
// is cleared, as the last reader does.
func TestAwaitFree_Dead(t *testing.T) { // guards: W7
	f := queued(t)
	leaveDeadClaim(t, f.Path)
	was := must(os.ReadFile(f.Path))(t)
	check(t, f.AwaitFree(t.Context()))
	if is, err := os.ReadFile(f.Path); err != nil || string(is) != string(was) {
		t.Errorf("%v: %s\nwant %s", err, is, was)
	}
	takeOver(t, f.Path)

	reader := start(t, "member", f.Path)
	reader.Do("shared", "held")
	reader.Kill()
	check(t, f.AwaitFree(t.Context()))
	wantFree(t, f.Path)
}

// TestAwaitFree_NotRefused: a TryAcquire that meets it at work, wherever that is, has the
// lock all the same, even of a dead holder who can't be known to be dead by the claim.
func TestAwaitFree_NotRefused(t *testing.T) { // guards: W7
	elsewhere := func(t *testing.T, f lock.File) {
		leaveDeadClaim(t, f.Path)
		claim := getClaim(t, f.Path)
		claim.PIDNamespace++
		putClaim(t, f.Path, claim)
	}
	for name, test := range map[string]struct {
		put  func(t *testing.T, f lock.File)
		step string
	}{
		"free":                      {func(t *testing.T, f lock.File) { letGo(t, tryHold(t, f)) }, lock.StepSiblingLocked},
		"dead":                      {func(t *testing.T, f lock.File) { leaveDeadClaim(t, f.Path) }, lock.StepJudged},
		"dead in another container": {elsewhere, lock.StepJudged},
	} {
		for _, mode := range []string{"exclusive", "shared"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				f := queued(t)
				test.put(t, f)
				met, goOn := make(chan struct{}), make(chan struct{})
				awaited := make(chan error, 1)
				go func() {
					awaited <- f.Park(func(step string) {
						if step == test.step {
							met <- struct{}{}
							<-goOn
						}
					}).AwaitFree(t.Context())
				}()
				<-met
				outwaited := false
				try := f.Park(func(step string) {
					if step == lock.StepBusy && !outwaited {
						outwaited = true
						close(goOn)
						check(t, <-awaited)
					}
				})
				acquire := try.TryAcquire
				if mode == "shared" {
					acquire = sharing(try).TryAcquire
				}
				held := must(acquire(t.Context()))(t)
				that(t, outwaited, "they have not met")
				letGo(t, held)
				wantFree(t, f.Path)
			})
		}
	}
}

// TestAwaitFree_OtherProgram: whoever knows only O_EXCL is waited for, with the queue free.
func TestAwaitFree_OtherProgram(t *testing.T) { // guards: W7
	for name, f := range map[string]lock.File{"": queued(t), "fallback": fallbackFile(t)} {
		t.Run(name, func(t *testing.T) {
			putClaim(t, f.Path, evidence.Claim{PID: os.Getpid(), CreatedAt: time.Now()})
			looks := make(chan struct{}, 100)
			awaited := beginAwait(t, t.Context(), f.Park(func(step string) {
				if step == lock.StepJudged {
					looks <- struct{}{}
				}
			}))
			for range 2 {
				<-looks
			}
			if name == "" {
				eventually(t, "the queue is free", func() bool { return peek(f.Path+".flock") == nil })
			}
			if len(awaited) != 0 {
				t.Fatal(get(t, awaited).err)
			}
			check(t, os.Remove(f.Path))
			wantAwaited(t, awaited)
			that(t, !testkit.Exists(f.Path), "it has made a lock file")
		})
	}
}

// TestAwaitFree_InVain: a wait that ends without the lock having been free says who has it.
func TestAwaitFree_InVain(t *testing.T) {
	f := queued(t)
	held := tryHold(t, f)
	var err error
	for limit := 10 * time.Millisecond; limit < patience; limit *= 2 { // it may pass before the first look
		limited, cancel := context.WithTimeout(t.Context(), limit)
		err = f.AwaitFree(limited)
		if cancel(); errors.As(err, new(*lock.LockedError)) {
			break
		}
	}
	if l := asLocked(t, err); !errors.Is(err, lock.ErrTimeout) || l.Info == nil || l.Info.PID != os.Getpid() {
		t.Errorf("%v; want ErrTimeout, and this process", err)
	}
	wantErr(t, f.AwaitFree(held.Context(t.Context())), lock.ErrReentrant)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := f.AwaitFree(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want canceled", err)
	}
	letGo(t, held)
	wantFree(t, f.Path)
	wantErr(t, (lock.File{Path: f.Path, RequireKernelLock: true}).WithoutKernelLock().AwaitFree(t.Context()), errors.ErrUnsupported)
}

// TestAwaitFree_BeingReclaimed: a dead holder's lock that another program is taking over is not
// free as long as that lasts.
func TestAwaitFree_BeingReclaimed(t *testing.T) { // guards: W7
	f := queued(t)
	putDeadClaim(t, f.Path)
	putClaim(t, f.Path+".reclaim", evidence.Claim{PID: os.Getpid(), CreatedAt: time.Now()})
	looks := 0
	awaited := beginAwait(t, t.Context(), f.Park(func(step string) {
		if step != lock.StepJudged {
			return
		}
		if looks++; looks == 2 {
			noErr(t, os.Remove(f.Path+".reclaim"))
		}
	}))
	wantAwaited(t, awaited)
	that(t, looks >= 2, "it was free for a program that only waits, and is being taken over")
}

// TestAwaitFree_Tidies: it removes the sibling if it was the last to need it.
func TestAwaitFree_Tidies(t *testing.T) { // guards: W7
	f := queued(t)
	f.Tidy = true
	putDeadClaim(t, f.Path)
	check(t, f.Park(func(step string) {
		if step != lock.StepJudged {
			return
		}
		noErr(t, os.Remove(f.Path))
	}).AwaitFree(t.Context()))
	equal(t, names(t, filepath.Dir(f.Path)), "", "left behind")
}
