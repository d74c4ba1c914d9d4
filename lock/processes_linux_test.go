package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/repolock"
	"github.com/holdfast-go/holdfast/platform"
)

// queuedListed is queued in a folder of which the kernel's list names the files as stat does.
func queuedListed(t *testing.T) lock.File {
	t.Helper()
	needsKernelList(t)
	f := queued(t)
	held := lockSibling(t, f)
	defer held.Close()
	if !inKernelList(t, f.Path+".flock") {
		t.Skip("needs a temporary folder on a filesystem whose files /proc/locks names (ext4, xfs, tmpfs)")
	}
	return f
}

func pids(processes []lock.Process) (all []int) {
	for _, p := range processes {
		all = append(all, p.PID)
	}
	slices.Sort(all)
	return all
}

// TestProcesses_Readers: readers are named as long as they read, and no longer: neither
// the first, whose claim is in the file, nor any other.
func TestProcesses_Readers(t *testing.T) {
	for name, end := range map[string]func(first *child){
		"killed": (*child).Kill,
		"left":   func(first *child) { first.Do("release", "released") },
	} {
		t.Run(name, func(t *testing.T) {
			f := queuedListed(t)
			first, second := start(t, "member", f.Path), start(t, "member", f.Path)
			first.Do("shared", "held")
			second.Do("shared", "held")
			one, two := first.Cmd.Process.Pid, second.Cmd.Process.Pid
			both := []int{min(one, two), max(one, two)}
			s := inspect(t, f)
			if !s.Shared || !slices.Equal(pids(s.Processes), both) || s.Info == nil || s.Info.PID != one {
				t.Errorf("%+v of %+v; want %v", s, s.Info, both)
			}
			end(first)
			s = inspect(t, f)
			if s.State != evidence.Held || !s.Shared || !slices.Equal(pids(s.Processes), []int{two}) || s.Info != nil {
				t.Errorf("%+v of %+v; want %d alone", s, s.Info, two)
			}
			equal(t, s.Processes[0].Cmd, filepath.Base(os.Args[0]), "its program")
			locked := wantLocked(t, f.Path)
			that(t, locked.Shared && locked.Info == nil && slices.Equal(pids(locked.Processes), []int{two}), "%+v", locked)
			for _, text := range []string{locked.Error(), repolock.UserMessage(locked, "")} {
				if strings.Contains(text, fmt.Sprint("pid ", one)) || !strings.Contains(text, fmt.Sprint("pid ", two)) {
					t.Errorf("%s; want pid %d, and not %d", text, two, one)
				}
			}
			second.Do("release", "released")
			wantFree(t, f.Path)
		})
	}
}

// TestProcesses_NoClaim: the kernel knows who has a lock of which no claim tells.
func TestProcesses_NoClaim(t *testing.T) {
	f := queuedListed(t)
	holder := start(t, "member", f.Path)
	holder.Do("try", "held")
	pid := holder.Cmd.Process.Pid
	check(t, os.Remove(f.Path))
	s := inspect(t, f)
	if s.State != evidence.Held || s.Info != nil || !slices.Equal(pids(s.Processes), []int{pid}) {
		t.Errorf("%+v; want pid %d", s, pid)
	}
	contains(t, wantLocked(t, f.Path).Error(), fmt.Sprintf("pid %d (%q), by the kernel's list", pid, filepath.Base(os.Args[0])))
}

// TestProcesses_NotTheDead: a dead holder is in nobody's way; who is on the way in is.
func TestProcesses_NotTheDead(t *testing.T) {
	f := queuedListed(t)
	leaveDeadClaim(t, f.Path)
	dead := inspect(t, f).Info.PID
	sibling := lockSibling(t, f)
	_, err := f.AcquireWithin(t.Context(), 20*time.Millisecond)
	l := asLocked(t, err)
	if !errors.Is(err, lock.ErrTimeout) || l.Info != nil || !slices.Equal(pids(l.Processes), []int{os.Getpid()}) || strings.Contains(err.Error(), fmt.Sprintf("pid %d ", dead)) {
		t.Errorf("%v; want this process, and not pid %d", err, dead)
	}
	check(t, sibling.Close())
	parkedIs(t, 0)
	if l := lock.InTheWay(f); l != nil {
		t.Errorf("%v is in the way", l)
	}
	takeOver(t, f.Path)
}

// TestProcesses_ChildOfTheDead: a lock outlives its holder in whoever else has the open
// file. They are named, and not the dead.
func TestProcesses_ChildOfTheDead(t *testing.T) {
	f := queuedListed(t)
	leaveDeadClaim(t, f.Path)
	dead := inspect(t, f).Info.PID
	child := must(lockFile(f.Path, platform.Exclusive))(t)
	l := wantLocked(t, f.Path)
	if l.Info != nil || !slices.Equal(pids(l.Processes), []int{os.Getpid()}) || strings.Contains(l.Error(), fmt.Sprintf("pid %d ", dead)) {
		t.Errorf("%v; want this process, and not pid %d", l, dead)
	}
	if s := inspect(t, f); s.Info != nil || !slices.Equal(pids(s.Processes), []int{os.Getpid()}) {
		t.Errorf("%+v; want this process, and not pid %d", s, dead)
	}
	check(t, child.Close())
	takeOver(t, f.Path)
}

// TestProcesses_Waiters: who waits is listed, in the order in which they came, with since
// when, until they have the lock.
func TestProcesses_Waiters(t *testing.T) { // guards: W10
	f := queuedListed(t)
	held := tryHold(t, f)
	var waiters []*child
	var want []int
	begun := time.Now()
	for range 3 {
		w := start(t, "member", f.Path)
		w.Do("acquire", "waiting")
		waiters, want = append(waiters, w), append(want, w.Cmd.Process.Pid)
		// It stands at the turnstile an instant before it says who it is.
		eventually(t, "a waiter is listed", func() bool { return slices.Equal(pids(inspect(t, f).Waiters), want) })
	}
	leave := func() { letGo(t, held) }
	for i, w := range waiters {
		last := begun
		s := inspect(t, f)
		for j, p := range s.Waiters {
			if p.PID != want[i+j] || p.Cmd != filepath.Base(os.Args[0]) || p.Since.Before(last) || p.Since.After(time.Now()) {
				t.Errorf("waiter %d is %+v; want pid %d, after %v", j, p, want[i+j], last)
			}
			last = p.Since
		}
		leave()
		w.Expect("held")
		eventually(t, "no longer listed", func() bool { return len(inspect(t, f).Waiters) == len(waiters)-i-1 })
		leave = func() { w.Do("release", "released") }
	}
	leave()
	wantFree(t, f.Path)
}

// TestProcesses_WaitersGone: who gave up is not said to wait, though a thread of theirs
// still does.
func TestProcesses_WaitersGone(t *testing.T) {
	f := queuedListed(t)
	holder, ahead := start(t, "member", f.Path), start(t, "member", f.Path)
	holder.Do("try", "held")
	waits := func(pids ...int) func() bool {
		return func() bool {
			var said []int
			for _, w := range inspect(t, f).Waiters {
				if !w.Since.IsZero() {
					said = append(said, w.PID)
				}
			}
			return slices.Equal(said, pids)
		}
	}
	wait := func() (gaveUp func()) {
		ctx, cancel := context.WithCancel(t.Context())
		came := beginAcquire(t, ctx, f)
		parkedIs(t, 1)
		return func() { cancel(); get(t, came) }
	}
	giveUp := wait()
	eventually(t, "we wait first", waits(os.Getpid()))
	giveUp()
	eventually(t, "we wait no more", waits())
	ahead.Do("acquire", "waiting")
	eventually(t, "another is ahead", waits(ahead.Cmd.Process.Pid))
	giveUp = wait() // in the thread that was left
	eventually(t, "we wait again", func() bool { return len(inspect(t, f).Waiters) == 2 })
	giveUp()
	eventually(t, "we wait no more", waits(ahead.Cmd.Process.Pid))
	holder.Do("release", "released")
	ahead.Expect("held")
	ahead.Do("release", "released")
	wantFree(t, f.Path)
}

// TestProcesses_WaitersGone_Behind: so it is for a thread that has not come past another one who
// waits.
func TestProcesses_WaitersGone_Behind(t *testing.T) {
	needsTurnstile(t)
	f := queuedListed(t)
	held, ahead := tryHold(t, f), start(t, "member", f.Path)
	ahead.Do("acquire", "waiting")
	waitedFor(t, f)
	said := func() (pids []int) {
		for _, w := range inspect(t, f).Waiters {
			if !w.Since.IsZero() {
				pids = append(pids, w.PID)
			}
		}
		return pids
	}
	ctx, cancel := context.WithCancel(t.Context())
	came := beginAcquire(t, ctx, f)
	eventually(t, "we wait behind them", func() bool { return slices.Equal(said(), []int{ahead.Cmd.Process.Pid, os.Getpid()}) })
	cancel()
	get(t, came)
	if got := said(); !slices.Equal(got, []int{ahead.Cmd.Process.Pid}) {
		t.Errorf("pids %v say that they wait; want %d alone", got, ahead.Cmd.Process.Pid)
	}
	letGo(t, held)
	ahead.Expect("held")
	ahead.Do("release", "released")
	wantFree(t, f.Path)
}

// TestOvertake_NoWriterBehindReaders: a writer who waits for readers is not stopped, and no
// later reader overtakes them, however often it looks.
func TestOvertake_NoWriterBehindReaders(t *testing.T) { // guards: W3
	needsKernelList(t)
	f := queued(t)
	first, writer := start(t, "member", f.Path), start(t, "member", f.Path)
	first.Do("shared", "held")
	writer.Do("acquire", "waiting")
	waitedFor(t, f)
	looks := make(chan struct{}, 100)
	late := beginShared(t, f.Park(func(step string) {
		if step == "wait looked after" {
			looks <- struct{}{}
		}
	}))
	for range 5 {
		select {
		case <-looks:
		case o := <-late:
			t.Fatalf("a reader has overtaken the writer: %v", o.err)
		}
	}
	first.Do("release", "released")
	writer.Expect("held")
	equal(t, len(late), 0, "the reader is in beside the writer")
	writer.Do("release", "released")
	letGo(t, getHeld(t, late))
	wantFree(t, f.Path)
}
