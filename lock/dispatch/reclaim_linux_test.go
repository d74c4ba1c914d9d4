package dispatch_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/dispatch"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// events collects what Observe is told.
type events struct {
	mu  sync.Mutex
	all []lock.Event
}

func (e *events) Observe(event lock.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// takenBy takes over the id of a dead holder, and says on what evidence.
func takenBy(t *testing.T, dir string) evidence.Evidence {
	t.Helper()
	var seen events
	claim := must(dispatch.Locks{Dir: dir, Observe: seen.Observe}.Acquire(t.Context(), id))(t)
	release(t, claim, dispatch.OutcomeReleased)
	equal(t, contents(t, dir), "", "left behind")
	for _, event := range seen.all {
		if event.Kind == lock.EventReclaimed {
			return event.Evidence
		}
	}
	return ""
}

// rewrite changes a claim that is on disk.
func rewrite(t *testing.T, dir string, changes fields) {
	t.Helper()
	var claim fields
	check(t, json.Unmarshal(read(t, lockPath(dir)), &claim))
	for name, value := range changes {
		if claim[name] = value; value == nil {
			delete(claim, name)
		}
	}
	text := must(json.Marshal(claim))(t)
	put(t, lockPath(dir), text)
}

// TestReclaim_Killed: a holder that was killed is taken over at once, by the kernel
// lock that it had.
func TestReclaim_Killed(t *testing.T) {
	dir := t.TempDir()
	died(t, dir)
	equal(t, takenBy(t, dir), evidence.KernelLockFree, "taken over by")
}

// TestReclaim_PIDUsedAgain: with the kernel lock beside the claim, a pid that was
// given to another process, which lives, does not keep the id for ever.
func TestReclaim_PIDUsedAgain(t *testing.T) { // guards: E4
	live := startChild(t, t.TempDir()).Cmd.Process.Pid

	// By the kernel lock: nothing but the pid tells of a process, and that one lives.
	dir := t.TempDir()
	died(t, dir)
	rewrite(t, dir, fields{"pid": live, "start": nil, "pidfd": nil})
	equal(t, takenBy(t, dir), evidence.KernelLockFree, "taken over by")

	// By the process's start, where the kernel lock is not one that can be asked about;
	// where the system has them, by its pidfd as well.
	for _, changes := range []fields{{"start": 1}, {"start": 1, "pidfd": nil}} {
		dir = t.TempDir()
		died(t, dir)
		rewrite(t, dir, changes)
		rewrite(t, dir, fields{"pid": live, "kernel_lock": "other:1:2"})
		equal(t, takenBy(t, dir), evidence.PIDReused, changes, "taken over by")
	}

	// Another program's claim has neither.
	dir = t.TempDir()
	put(t, lockPath(dir), foreign(t, fields{"pid": live}))
	conflict(t, dir)
}

// TestReclaim_LiveHolderKeepsIt: two proofs that contradict each other are none: a
// holder whose process lives keeps the id, though its kernel lock seems free.
func TestReclaim_LiveHolderKeepsIt(t *testing.T) {
	dir := t.TempDir()
	holder := startChild(t, dir)
	holder.Say(id)
	check(t, os.Remove(lockPath(dir)+".flock"))
	if c := conflict(t, dir); c.Holder == nil || c.Holder.PID != holder.Cmd.Process.Pid {
		t.Errorf("holder is %+v", c.Holder)
	}
}

// TestReclaim_MarkerOfTheDead: what a reclaimer that died has left is recovered: a
// claim of ours, whole or begun, or another program's empty file.
func TestReclaim_MarkerOfTheDead(t *testing.T) {
	t.Run("ours", func(t *testing.T) {
		dir := t.TempDir()
		died(t, dir)
		put(t, marker(dir), read(t, lockPath(dir)))
		taken(t, dir)
	})
	t.Run("ours, for another program's claim", func(t *testing.T) {
		dir := t.TempDir()
		died(t, dir)
		check(t, os.Rename(lockPath(dir), marker(dir)))
		put(t, lockPath(dir), foreign(t, nil))
		taken(t, dir)
	})
	for name, text := range map[string]string{"ours, just created": "", "ours, half written": `{"pid":1`} {
		t.Run(name, func(t *testing.T) {
			if !platform.KeepsMarks {
				t.Skip("needs a system where files can be marked, to know that who made one has it locked")
			}
			dir := t.TempDir()
			died(t, dir)
			put(t, marker(dir), []byte(text))
			check(t, os.Chmod(marker(dir), 0o600|os.ModeSticky))
			taken(t, dir)
		})
	}
	t.Run("another program's", func(t *testing.T) {
		testkit.NeedsLeases(t)
		dir := t.TempDir()
		put(t, lockPath(dir), foreign(t, nil))
		put(t, marker(dir), nil)
		age(t, marker(dir))
		taken(t, dir)
	})
	t.Run("another program's, for a claim of ours", func(t *testing.T) {
		testkit.NeedsLeases(t)
		dir := t.TempDir()
		died(t, dir)
		put(t, marker(dir), nil)
		age(t, marker(dir))
		taken(t, dir)
	})
}

// TestReclaim_MarkerOfTheLiving: a marker that may be somebody's keeps others out,
// and stays.
func TestReclaim_MarkerOfTheLiving(t *testing.T) {
	wantRespected := func(t *testing.T, dir string) {
		t.Helper()
		c := conflict(t, dir)
		equal(t, c.Unwrap().(*lock.LockedError).Evidence, evidence.BeingReclaimed, "evidence")
		contains(t, c.Detail, marker(dir), "the detail does not name the marker")
	}
	t.Run("empty, open for writing", func(t *testing.T) {
		testkit.NeedsLeases(t)
		dir := t.TempDir()
		put(t, lockPath(dir), foreign(t, nil))
		// What another program does: created, and kept open.
		f := must(os.OpenFile(marker(dir), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666))(t)
		wantRespected(t, dir)
		check(t, f.Close())
		age(t, marker(dir))
		taken(t, dir)
	})
	t.Run("a live process's claim", func(t *testing.T) {
		dir := t.TempDir()
		holder := startChild(t, dir)
		holder.Say(id)
		check(t, os.Rename(lockPath(dir), marker(dir)))
		// Its kernel lock is another id's, so that it is the marker that decides.
		check(t, os.Remove(lockPath(dir)+".flock"))
		put(t, lockPath(dir), foreign(t, nil))
		wantRespected(t, dir)
	})
	for name, text := range map[string]string{
		"text": "hello", "another id's dead claim": string(foreign(t, fields{"gardenId": other})),
		"another host's claim": string(foreign(t, fields{"hostname": "elsewhere"})),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, lockPath(dir), foreign(t, nil))
			put(t, marker(dir), []byte(text))
			wantRespected(t, dir)
		})
	}
	t.Run("a folder", func(t *testing.T) {
		dir := t.TempDir()
		put(t, lockPath(dir), foreign(t, nil))
		check(t, os.Mkdir(marker(dir), 0o755))
		wantRespected(t, dir)
	})
}

// TestReclaim_OnlyUnderTheMarker: who finds the id free, or held, does not ask for the
// marker: one that somebody has keeps nobody from a free id.
func TestReclaim_OnlyUnderTheMarker(t *testing.T) {
	dir := t.TempDir()
	f := must(os.OpenFile(marker(dir), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666))(t)
	defer f.Close()
	claim := acquire(t, dir)
	if c := conflict(t, dir); c.Holder == nil || c.Holder.Nonce != claim.Nonce {
		t.Errorf("holder is %+v", c.Holder)
	}
	release(t, claim, dispatch.OutcomeReleased)
	noErr(t, errOf(os.Lstat(marker(dir))), "the marker")
}

// TestReclaim_WinnerInTheGap: another program removes the dead claim, and before it
// has made its own, we claim the id, which is free. It finds ours, and ours stays.
// The other way round there is no gap.
func TestReclaim_WinnerInTheGap(t *testing.T) {
	dir := t.TempDir()
	put(t, lockPath(dir), foreign(t, nil))
	theirs := must(os.OpenFile(marker(dir), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666))(t)
	check(t, os.Remove(lockPath(dir)))
	claim := acquire(t, dir)
	if f, err := os.OpenFile(lockPath(dir), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); !errors.Is(err, fs.ErrExist) {
		t.Fatal("the other program got it: ", f, err)
	}
	check(t, errors.Join(theirs.Close(), os.Remove(marker(dir))))
	release(t, claim, dispatch.OutcomeReleased)
}

func marker(dir string) string { return lockPath(dir) + ".reclaim" }
