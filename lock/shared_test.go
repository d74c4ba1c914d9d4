package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

func removeFile(t *testing.T, path string) {
	t.Helper()
	check(t, os.Remove(path))
}

// sharing has a File acquire its lock for a reader.
func sharing(f lock.File) lock.File {
	f.Shared = true
	return f
}

func holdShared(t *testing.T, f lock.File) *lock.FileHold {
	t.Helper()
	return must(sharing(f).Acquire(t.Context()))(t)
}

func beginShared(t *testing.T, f lock.File) <-chan outcome {
	t.Helper()
	return begin(t, f, true, func() (*lock.FileHold, error) { return sharing(f).Acquire(t.Context()) })
}

func wantSharedLocked(t *testing.T, f lock.File, want evidence.Evidence) {
	t.Helper()
	held, err := sharing(f).TryAcquire(t.Context())
	if err == nil {
		t.Fatal("a reader got in: ", held.Release())
	}
	if locked := asLocked(t, err); locked.Evidence != want || locked.State != evidence.Held || (locked.Info == nil) != (want == evidence.OthersWait) {
		t.Errorf("got %v; want %q, and a holder who is in the way", locked, want)
	}
}

// TestShared_Together: readers of one process are in together, writers are not,
// and the lock file is there from the first to the last.
func TestShared_Together(t *testing.T) { // guards: R1
	f := queued(t)
	const n = 8
	var in, out sync.WaitGroup
	in.Add(n)
	leave := make(chan struct{})
	for i := range n {
		out.Go(func() {
			acquire := sharing(f).Acquire
			if i%2 == 0 {
				acquire = sharing(f).TryAcquire
			}
			held, err := acquire(t.Context())
			for errors.As(err, new(*lock.LockedError)) { // another reader was in the turnstile
				held, err = acquire(t.Context())
			}
			in.Done()
			<-leave
			if err != nil {
				t.Error(err)
			} else if err := held.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	promptly(t, "the rendezvous of readers", in.Wait)
	if claim := getClaim(t, f.Path); claim.Mode != "shared" || claim.PID != os.Getpid() {
		t.Errorf("on disk is %+v", claim)
	}
	if l := wantLocked(t, f.Path); l.Evidence != evidence.KernelLockHeld || l.Info == nil || l.Info.Mode != "shared" {
		t.Errorf("a writer hears %v", l)
	}
	if s, err := f.Inspect(t.Context()); err != nil || s.State != evidence.Held || s.Info == nil || s.Info.Mode != "shared" {
		t.Errorf("Inspect: %+v, %v", s, err)
	}
	close(leave)
	out.Wait()
	// Two who leave at once may each take the other for one who reads on: see clearSoon.
	eventually(t, "the readers' file is gone", func() bool { _, err := os.Lstat(f.Path); return errors.Is(err, os.ErrNotExist) })
	wantFree(t, f.Path)
}

// TestShared_Processes: the same among processes; whichever leaves last removes
// the lock file.
func TestShared_Processes(t *testing.T) { // guards: R2
	f := queued(t)
	const n = 4
	for last := range n {
		var readers []*child
		for range n {
			r := start(t, "member", f.Path)
			r.Do("shared", "held")
			readers = append(readers, r)
		}
		for i, r := range readers {
			if i != last {
				r.Do("release", "released")
				wantLocked(t, f.Path)
			}
		}
		// The one that is left may not be the one that the lock file names.
		letGo(t, holdShared(t, f))
		wantLocked(t, f.Path)
		readers[last].Do("release", "released")
		wantFree(t, f.Path)
	}
}

// TestShared_WriterAlone: no reader gets in beside a writer.
func TestShared_WriterAlone(t *testing.T) { // guards: R1
	f := queued(t)
	writer := tryHold(t, f)
	wantSharedLocked(t, f, evidence.KernelLockHeld)
	other := start(t, "member", f.Path)
	other.Do("try-shared", "locked: "+string(evidence.KernelLockHeld))
	other.Do("shared", "waiting")
	ours := beginShared(t, f)
	that(t, writer.Info().Mode != "shared", "the writer's claim is a reader's")
	letGo(t, writer)
	other.Expect("held")
	reader := getHeld(t, ours) // beside the other
	if reader.Info().Mode != "shared" {
		t.Errorf("the reader's claim is %+v", reader.Info())
	}
	wantLocked(t, f.Path)
	letGo(t, reader)
	other.Do("release", "released")
	wantFree(t, f.Path)
}

// TestShared_WriterWaits: readers who come after a writer who waits do not get in
// before.
func TestShared_WriterWaits(t *testing.T) { // guards: W2
	needsTurnstile(t)
	f := queued(t)
	first := holdShared(t, f)
	other := start(t, "member", f.Path)
	writer := beginAcquire(t, t.Context(), f)
	parkedIs(t, 1)
	wantSharedLocked(t, f, evidence.OthersWait)
	other.Do("try-shared", "locked: "+string(evidence.OthersWait))
	other.Do("shared", "waiting")
	ours := beginShared(t, f)
	parkedIs(t, 2)
	letGo(t, first)
	held := getHeld(t, writer)
	equal(t, len(ours), 0, "a reader got in before the writer")
	if held.Info().Mode == "shared" {
		t.Errorf("the writer's claim is %+v", held.Info())
	}
	letGo(t, held)
	letGo(t, getHeld(t, ours))
	other.Expect("held")
	other.Do("release", "released")
	wantFree(t, f.Path)
}

// TestShared_WriterGivesUp: a writer who waited for readers and gave up leaves
// nothing, whoever is faster when the last reader leaves.
func TestShared_WriterGivesUp(t *testing.T) { // guards: R3
	f := queued(t)
	for range 200 {
		reader := holdShared(t, f)
		ctx, cancel := context.WithCancel(t.Context())
		writer := beginAcquire(t, ctx, f)
		parkedIs(t, 1)
		cancel()
		if err := get(t, writer).err; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		letGo(t, reader)
		wantFree(t, f.Path)
		if t.Failed() {
			break
		}
	}
}

// TestShared_Robbed: whoever removes the readers' lock file lets no writer in, and
// all readers learn of it.
func TestShared_Robbed(t *testing.T) {
	f := queued(t)
	other := start(t, "member", f.Path)
	other.Do("shared", "held")
	ours := holdShared(t, f)
	ctx := ours.Context(t.Context())
	removeFile(t, f.Path)
	wantLocked(t, f.Path)
	other.Do("try", "locked: "+string(evidence.KernelLockHeld))
	wantErr(t, ours.Release(), lock.ErrLost, "Release")
	<-ours.Lost()
	wantErr(t, context.Cause(ctx), lock.ErrLost, "the context's cause")
	other.Kill()
	letGo(t, tryHoldSoon(t, f))
	wantFree(t, f.Path)
}

// TestShared_RobbedAndJoined: a reader who comes after the robbery is safe, and
// the robbed leave its lock file alone.
func TestShared_RobbedAndJoined(t *testing.T) { // guards: B4
	f := queued(t)
	robbed := holdShared(t, f)
	removeFile(t, f.Path)
	later := holdShared(t, f)
	wantErr(t, robbed.Release(), lock.ErrLost, "Release of the robbed")
	wantLocked(t, f.Path)
	letGo(t, later)
	wantFree(t, f.Path)
}

// tryHoldSoon acquires a lock whose holder may be dying.
func tryHoldSoon(t *testing.T, f lock.File) *lock.FileHold {
	t.Helper()
	var held *lock.FileHold
	promptly(t, "Acquire", func() {
		var err error
		if held, err = f.Acquire(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if held == nil {
		t.FailNow()
	}
	return held
}

// TestShared_Fallback: without kernel locks shared means exclusive.
func TestShared_Fallback(t *testing.T) { // guards: R4
	f := fallbackFile(t)
	held := holdShared(t, f)
	if held.Info().Mode != "" {
		t.Errorf("claim is %+v", held.Info())
	}
	wantSharedLocked(t, f, evidence.SameProcess)
	noErr(t, errOf(held.Fence()), "Fence")
	next := beginAcquire(t, t.Context(), f)
	reader := beginAcquireAsShared(t, f)
	letGo(t, held)
	letGo(t, getHeld(t, next))
	letGo(t, getHeld(t, reader))
	isAbsent(t, f.Path)
}

// beginAcquireAsShared is for where a reader queues as a writer does.
func beginAcquireAsShared(t *testing.T, f lock.File) <-chan outcome {
	t.Helper()
	return begin(t, f, false, func() (*lock.FileHold, error) { return sharing(f).Acquire(t.Context()) })
}

func TestShared_NoFence(t *testing.T) { // guards: F3
	f := queued(t)
	held := holdShared(t, f)
	if _, err := held.Fence(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), f.Path) {
		t.Errorf("Fence: %v", err)
	}
	letGo(t, held)
	equal(t, names(t, filepath.Dir(f.Path)), filepath.Base(f.Path)+".flock", "something is left behind")
}

// TestShared_StressOneProcess: readers and writers in one process, by two oracles.
func TestShared_StressOneProcess(t *testing.T) { // guards: R1
	f := queued(t)
	var all intervals
	var wg sync.WaitGroup
	for i := range 8 {
		acquire, work := sharing(f).Acquire, all.together
		if i%4 == 0 {
			acquire, work = f.Acquire, all.alone
		}
		wg.Go(func() {
			for range 60 {
				held, err := acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				work(t, f.Path)
				noErr(t, held.Release())
			}
		})
	}
	promptly(t, "the stress", wg.Wait)
	t.Logf("%d readers came beside another", all.check(t))
	wantFree(t, f.Path)
}

// TestAcquire_WriterGoneLetsReadersIn: a writer who waited for readers and gave up is
// in nobody's way, though its wait in the kernel can't be called off.
func TestAcquire_WriterGoneLetsReadersIn(t *testing.T) { // guards: R3
	needsTurnstile(t)
	f := queued(t)
	other := start(t, "member", f.Path)
	other.Do("shared", "held")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writer := beginAcquire(t, ctx, f)
	parkedIs(t, 1)
	if held, err := sharing(f).TryAcquire(t.Context()); err == nil {
		t.Error("a reader passed a writer who waits", held.Release())
	}
	cancel()
	if err := get(t, writer).err; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	held := must(sharing(f).TryAcquire(t.Context()))(t)
	letGo(t, held)
	// Who comes next adopts the wait.
	next := beginAcquire(t, t.Context(), f)
	other.Do("release", "released")
	letGo(t, getHeld(t, next))
	parkedIs(t, 0)
	wantFree(t, f.Path)
}

// The last reader removes the readers' lock file even if their sibling is gone: it
// names a process that lives, and would keep everybody out for as long as that does.
func TestShared_SiblingGone(t *testing.T) { // guards: R2
	for _, replace := range []bool{false, true} {
		f := queued(t)
		first, last := holdShared(t, f), holdShared(t, f)
		removeFile(t, f.Path+".flock")
		if replace {
			putFile(t, f.Path+".flock", nil, time.Now())
		}
		letGo(t, first)
		wantLocked(t, f.Path)
		letGo(t, last)
		isAbsent(t, f.Path)
		letGo(t, tryHold(t, f))
		wantFree(t, f.Path)
	}
}

// TestShared_FormsOfFile: File's own shared forms let readers in together. What else holds
// of them is in package locktest.
func TestShared_FormsOfFile(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), "l")}
	err := sharing(f).Do(t.Context(), func(context.Context, *lock.FileHold) error {
		held, err := sharing(f).AcquireWithin(t.Context(), 0)
		if err != nil {
			return err
		}
		return held.Release()
	})
	noErr(t, err)
	wantFree(t, f.Path)
}

// TestShared_LookedAfterAgain: a reader that leaves while others read has the file looked after
// for a while, and so has the next one who does.
func TestShared_LookedAfterAgain(t *testing.T) {
	f := queued(t)
	for range 2 {
		first := must(sharing(f).TryAcquire(t.Context()))(t)
		second := must(sharing(f).TryAcquire(t.Context()))(t)
		letGo(t, first)
		letGo(t, second)
		isAbsent(t, f.Path)
		eventually(t, "nobody looks after it any more", func() bool { return lock.Clearing() == 0 })
	}
}

// TestShared_JudgesAnew: a reader who has become alone with a dead holder's file judges what is
// in it then, and not what it read before.
func TestShared_JudgesAnew(t *testing.T) {
	f := queued(t)
	putDeadClaim(t, f.Path)
	alive := fmt.Appendf(nil, `{"pid":%d,"created_at":%q}`, os.Getpid(), time.Now().Add(time.Minute).Format(time.RFC3339))
	var judged bool
	_, err := f.Park(func(step string) { judged = judged || step == lock.StepJudged }).TryAcquireSharedAnd(t.Context(), func() {
		check(t, os.WriteFile(f.Path, alive, 0o600))
	})
	if l := asLocked(t, err); l.Info == nil || l.Info.PID != os.Getpid() || judged {
		t.Errorf("found %+v; judged dead: %v", l.Info, judged)
	}
}
