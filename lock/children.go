package lock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// Children that hold too.
//
// A child inherits (Attach) the open file by which the holder has the own lock of its lock
// file. The kernel keeps that lock until the last process with this open file has closed it.
// So the lock means the same as before: somebody who works under this claim lives. All that
// rests on it (rules A and B, the ladder) stays as it was:
//
//   - While the holder lives, its children change nothing. Its Release first removes the name,
//     and then unlocks the open file for every process that has it. The child is left with a
//     file that no path leads to, which is nobody's lock (rule B).
//   - When the holder is killed, its place in the queue is free, and its own lock is not. The
//     next process passes the queue, finds the lock file busy (rule A), and waits for it in
//     the kernel, at the head of the queue. It judges the claim when the last child has gone.
//     No rung of the ladder sees a claim whose children live.
//   - A holder that leaves the lock to its children must not be taken by its pid for a process
//     at work. Nor may it remove a file that children have locked: see LeaveToChildren.
//
// A child has no place in the queue, so nobody waits twice. Only attached children have the
// open file: everywhere else it is close-on-exec.

// Attach has cmd hold the lock too, once it has been started. If this process dies without
// releasing the lock, the command and the processes that it has started have it. They have it
// until the last of them has ended, or has closed the descriptor that carries it. So the next
// holder does not begin while they are at work. A Release by this process is a release,
// whatever its children do.
//
// Call it before cmd.Start, and release the lock after. It adds the descriptor to
// cmd.ExtraFiles, at the first number that this process does not hand to its children anyway,
// and to cmd.Env what Environ adds.
//
// On failure cmd is as it was. The error matches errors.ErrUnsupported where children can't hold:
// in fallback mode, on a filesystem that is not trusted, and on systems other than Linux.
func (h *FileHold) Attach(cmd *exec.Cmd) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, err := h.attempt, error(nil)
	switch {
	case h.over || h.left:
		err = errReleased
	case h.isLost:
		err = ErrLost
	case a.take.Renews() || !a.take.HasOwnLocks():
		err = errors.ErrUnsupported
	case h.handed == nil:
		h.handed, err = h.own.File.Inheritable()
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("children can't hold it too, on %s: no trustworthy kernel lock: %w", a.Fsys.Kind, errors.ErrUnsupported)
	}
	if err != nil {
		return fail.At("attach to", h.Path(), err)
	}
	// Our file must not replace one that the user meant a child to have (a jobserver, sockets of
	// a service manager).
	files := cmd.ExtraFiles
	for {
		theirs := platform.Inherited(3 + len(files))
		if theirs == nil {
			break
		}
		files = append(files, theirs) // closed by the garbage collector, like any file of a command
	}
	cmd.ExtraFiles = append(files, h.handed)
	cmd.Env = h.environ(cmd.Environ())
	return nil
}

// LeaveToChildren ends this process's part in the lock. If an attached command, or a process
// that it has started, still has the lock, they keep it until the last of them has ended. left
// is then true, and the lock file says that its holder has gone. Otherwise, and for a lost
// lock, this is Release.
//
// The kernel does not tell readers apart. For them left says whether such processes can be
// seen.
//
// After an error with left, the lock is taken until the children, and this process, have
// ended. After an error without left, call Release, which needs no descriptor, or
// LeaveToChildren again. Where the lock file can't be opened anew, as no descriptor is free
// (EMFILE), the lock is held as before.
func (h *FileHold) LeaveToChildren() (left bool, err error) {
	h.mu.Lock()
	release := true
	if !h.over && !h.left && !h.isLost && h.handed != nil {
		left, release, err = h.leaveToChildren()
	}
	h.mu.Unlock()
	if release {
		err = fail.Join(err, h.Release())
	}
	return left, err
}

// leaveToChildren gives the own lock to the children, and reports whether there are any. If
// not, or if we are a reader, the lock is ours alone again, and the caller releases it.
//
// Only the kernel knows whether children have the lock: they do if the file can't be locked
// anew once our descriptors are closed. In between our place in the queue keeps others away. A
// process that comes past the queue meets the claim of a process that lives.
//
// The caller has h.mu.
func (h *FileHold) leaveToChildren() (left, release bool, err error) {
	a := h.attempt
	if err := h.own.IsOurs(); err != nil {
		return false, true, nil // Release tells
	}
	again, err := platform.Open(h.own.Path, os.O_RDWR)
	if err != nil {
		return false, false, fail.At("leave", h.Path(), err)
	}
	if again.ID() != h.own.File.ID() {
		return false, true, again.Close()
	}
	if a.take.Mode == platform.Shared {
		if err := again.TryLock(platform.Shared); err != nil { // of which we have one
			return false, false, fail.Join(fail.At("leave", h.Path(), err), again.Close())
		}
		left = hasHeirs(again.ID())
	}
	err = fail.Join(h.own.File.CloseLocked(), h.handed.Close())
	h.own.File, h.handed = again, nil
	if a.take.Mode == platform.Shared {
		return left, true, err
	}
	for try := 1; ; try++ {
		lerr := again.TryLock(platform.Exclusive)
		if lerr == nil {
			return false, true, err
		}
		if lerr != platform.ErrBusy || try == pace.Tries { // one that only looks would have gone
			break
		}
		time.Sleep(pace.Passage)
	}
	// Only the holder that made a file writes to it. This one is ours, whatever process has it
	// locked.
	err = fail.Join(err, h.own.SayReleased())
	err = fail.Join(err, again.Close())
	err = fail.Join(err, a.siblingLock.Close())
	h.left = true
	h.end()
	a.observe(Event{Kind: EventReleased, Duration: time.Since(h.since)})
	return true, false, err
}

// hasHeirs reports whether another process has a lock that this one took.
func hasHeirs(id platform.FileID) bool {
	locks, _ := platform.ListKernelLocks()
	return slices.ContainsFunc(locks.Heirs(id), func(h platform.Heir) bool { return h.Taker == platform.Self().PID })
}
