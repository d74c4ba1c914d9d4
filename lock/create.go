package lock

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// ownFile is a whole claim of ours on disk: a lock file or a marker. For a reader it is the
// lock file of all readers, which another reader may have written. As long as we have it,
// the file is open and its own lock ours. So no other file can get its inode.
type ownFile struct {
	file         *platform.File
	path         string
	claim        LockInfo
	data         []byte    // what is in it; nil before it is whole
	written      time.Time // when that was done, or later
	remembered   bool      // its filesystem may show an older file in its place: see holdsAnew
	otherNames   bool      // it had further names when isOurs looked
	saysReleased int64     // where the file says that it is not released; 0 for readers, as others may go on
}

// steps names the steps that create passes.
type steps struct{ created, locked, checked, written step }

var (
	createSteps = steps{stepCreated, stepOwnLocked, stepChecked, stepWritten}
	markerSteps = steps{stepMarkerCreated, stepMarkerLocked, stepMarkerChecked, stepMarkerWritten}
	rightSteps  = steps{stepRightCreated, "", "", stepRightWritten}
)

// create is step 2: it makes the file at path, with its own lock and a claim of ours. The
// error matches fs.ErrExist when something is there, and is errMoved when another look is
// worth it. On failure nothing of ours is left.
func (a *attempt) create(ctx context.Context, path string, mode platform.Mode, at steps) (*ownFile, error) {
	if a.marks() && !a.fallback {
		return a.createInPlace(ctx, path, true, mode, at)
	}
	return a.createAside(ctx, path, mode, at)
}

// createInPlace makes the file with its mark, by one act, then locks it and writes the
// claim. The mark stays. It says that whoever made the file locks it: if its lock is free
// and it has no whole claim, its maker died here. The content tells whether the claim is
// whole. Taking the mark away instead would be a second write, which a loss of power could
// keep without the first.
func (a *attempt) createInPlace(ctx context.Context, path string, mark bool, mode platform.Mode, at steps) (*ownFile, error) {
	f, err := platform.CreateAs(path, mark, a.file.Perm)
	if err != nil {
		abandon(f, path)
		return nil, fmt.Errorf("lock: %w", err)
	}
	a.at(at.created)
	if a.hasOwnLocks() {
		// Rule A. Whoever has its lock now only looks, or takes it for a dead holder's.
		// Then rule B keeps us from using it.
		if f, err = a.patience.lockOwn(ctx, a, f, path, mode); err == platform.ErrBusy {
			err = a.locked(a.file.Path, nil, StateHeld, EvidenceKernelLockHeld)
		}
		if err != nil {
			abandon(f, path)
			return nil, err
		}
		a.at(at.locked)
	}
	if there, err := f.IsAt(path); err != nil { // rule B
		abandon(f, path)
		return nil, pathError("check", path, err)
	} else if !there {
		return nil, joined(errMoved, f.Close())
	}
	a.at(at.checked)
	own, err := a.writeClaim(f, path, mode)
	if err == nil {
		a.at(at.written)
	}
	return own, err
}

// createAside is for places where a mark is not kept, or proves nothing because nobody can
// tell whether the file's lock is free. The file appears at path (link(2)) only when its
// claim is whole and its own lock ours. A crash before that leaves it under another name,
// in nobody's way.
func (a *attempt) createAside(ctx context.Context, path string, mode platform.Mode, at steps) (*ownFile, error) {
	aside := a.marker + ".new" // one name for all, where the next one can tell whether it is in use
	if a.renews() {
		aside = a.marker + "." + newNonce()
	}
	f, err := platform.CreateAs(aside, false, a.file.Perm)
	if errors.Is(err, fs.ErrExist) {
		return nil, a.removeLeftover(ctx, aside)
	} else if err != nil {
		abandon(f, aside)
		return nil, fmt.Errorf("lock: %w", err)
	}
	if a.hasOwnLocks() {
		if f, err = a.patience.lockOwn(ctx, a, f, aside, mode); err == platform.ErrBusy {
			err = errMoved // whoever has it takes it for a leftover
		}
		if err != nil {
			abandon(f, aside)
			return nil, err
		}
		a.at(at.locked)
	}
	if there, err := f.IsAt(aside); err != nil {
		abandon(f, aside)
		return nil, pathError("check", aside, err)
	} else if !there {
		return nil, joined(errMoved, f.Close())
	}
	own, err := a.writeClaim(f, aside, mode)
	if err != nil {
		return nil, err
	}
	a.at(at.written)
	err = f.Link(path)
	if errors.Is(err, errors.ErrUnsupported) {
		// Without hard links, only age clears what a crash leaves half made.
		if err := a.discard(own); err != nil {
			return nil, err
		}
		return a.createInPlace(ctx, path, false, mode, at)
	}
	a.at(at.created)
	if err != nil && !own.isLinked(path) {
		return nil, joined(fmt.Errorf("lock: %w", err), a.discard(own))
	}
	own.path = path
	if err := ignoreAbsent(platform.Remove(aside)); err != nil {
		return nil, joined(fmt.Errorf("lock: %w", err), a.discard(own))
	}
	a.at(at.checked)
	return own, nil
}

// isLinked reports whether the file has a further name, at path, though link(2) gave an error:
// a server's answer may be lost, and that to the question put once more is that the name is
// taken. Source: link(2), BUGS.
func (o *ownFile) isLinked(path string) bool {
	if at, err := o.file.IsAt(path); err != nil || !at {
		return false
	}
	holds, err := holdsAnew(path, o.data)
	return err == nil && holds
}

// removeLeftover removes the file that a dead process has left aside, under the one name
// that all use. The error is errMoved when that is done, or its maker is still at work.
func (a *attempt) removeLeftover(ctx context.Context, aside string) error {
	f, err := a.lookLocked(ctx, aside, platform.Exclusive)
	var locked *ErrLocked
	switch {
	case errors.As(err, &locked):
		return errMoved // somebody is making theirs
	case err != nil:
		return err
	case f.file == nil:
		return pathError("create", aside, errors.New("something that is not a lock file is in the way"))
	}
	if err = a.remove(ctx, aside, f, ""); err == nil {
		err = errMoved
	}
	return joined(err, f.close())
}

// writeClaim writes a claim of ours into a new file, whose own lock is ours. On failure it
// removes the file.
func (a *attempt) writeClaim(f *platform.File, path string, mode platform.Mode) (*ownFile, error) {
	own := &ownFile{file: f, path: path, claim: a.newClaim(f, mode), remembered: !a.fsys.Trusted}
	data, err := a.encode(own.claim)
	if err == nil {
		err = f.WriteAt(data, 0)
	}
	if err == nil && !a.fsys.Trusted {
		err = f.Sync() // a server's full disk may show only here
	}
	if err != nil {
		return nil, joined(fmt.Errorf("lock: %w", err), a.discard(own))
	}
	own.data, own.written = data, time.Now()
	if mode == platform.Exclusive {
		own.saysReleased = int64(bytes.Index(data, []byte(notReleased)))
	}
	return own, nil
}

// newClaim describes this process as the holder of the lock, in this file.
func (a *attempt) newClaim(own *platform.File, mode platform.Mode) LockInfo {
	self, host := platform.Self(), platform.ThisHost()
	c := LockInfo{
		PID:           self.PID,
		CreatedAt:     a.now().UTC(),
		OwnerPID:      a.file.OwnerPID,
		Cmd:           a.file.Cmd,
		Nonce:         a.nonce,
		Hostname:      host.Name,
		User:          platform.User(),
		Dir:           workingDir(),
		BootID:        host.BootID,
		PIDNamespace:  self.PIDNamespace,
		TimeNamespace: self.TimeNamespace,
		Start:         self.Start,
		PIDFD:         self.PIDFD,
	}
	locked := own
	if !platform.OwnLocks && a.siblingLock != nil {
		locked = a.siblingLock
	}
	if a.renews() {
		c.RenewedAt, c.StaleAfter = renewalTime(c.CreatedAt), a.staleAfter()
	} else {
		c.KernelLock = a.lockName(locked.ID())
	}
	switch {
	case mode == platform.Shared:
		c.Mode = modeShared // the file is that of all readers, whose descriptors are many
	case c.KernelLock != "":
		c.LockFD = own.Descriptor()
		if a.siblingLock != nil {
			c.QueueFD = a.siblingLock.Descriptor()
		}
	}
	return c
}

// newNonce returns at least 128 random bits, in base32.
func newNonce() string { return rand.Text() }

const nonceLength = 26

// encode encodes a claim of ours, with the fields of Format.Fields.
func (a *attempt) encode(c LockInfo) ([]byte, error) {
	var fields map[string]string
	if a.file.Format != nil && a.file.Format.Fields != nil {
		fields = a.file.Format.Fields(c)
	}
	data, err := c.encode(fields)
	if err == nil && a.file.ownParse() { // before anybody is shut out by a file that nobody can read
		if _, err = a.decode(data); err != nil && !errors.Is(err, errParse) {
			err = fmt.Errorf("%w, which can't read a claim of this File's own: %w", errParse, err)
		}
	}
	return data, err
}

// renews reports whether others may have to judge this holder by age, because
// the kernel that they ask may not be the one that knows.
func (a *attempt) renews() bool { return a.fallback || !a.fsys.Trusted }

// renewalTime drops the fraction, so that the encoded time always has the same length: a
// renewal overwrites the claim in place.
func renewalTime(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// isOurs returns nil if the path leads to the very file that we made, with what we wrote in
// it, and else ErrLost. As a rule the file's time tells whether somebody wrote to it, and
// it need not be read. That time is at most the time after our last write, unless somebody
// wrote later, or set it.
func (o *ownFile) isOurs() error {
	info, id, err := platform.Look(o.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrLost
	case err != nil:
		return pathError("check", o.path, err)
	case id != o.file.ID(), info.Links == 0:
		return ErrLost
	}
	o.otherNames = info.Links > 1
	if o.data == nil || !o.remembered && info.Size == int64(len(o.data)) && !info.Modified.After(o.written) {
		return nil
	}
	holds, err := o.file.Holds(o.data)
	if o.remembered {
		holds, err = holdsAnew(o.path, o.data)
	}
	switch {
	case err != nil:
		return pathError("check", o.path, err)
	case !holds:
		return ErrLost
	}
	return nil
}

// sayReleased makes the claim say that it was released, through the open file, in one of
// two ways. An append-only file can still be written over by whoever has it open. A
// filesystem without a block to spare, where writing takes one, still changes a mode.
func (o *ownFile) sayReleased() error {
	if o.saysReleased == 0 {
		return nil // the kernel lock says it all
	}
	there := make([]byte, len(o.data)) // another program may have appended to it
	_, err := o.file.ReadAt(there, 0)
	still := bytes.Equal(there, o.data)
	if err == nil && still {
		err = o.file.WriteAt([]byte(isReleased), o.saysReleased)
	}
	if (err != nil || !still) && platform.KeepsMarks && o.claim.KernelLock != "" {
		if o.file.Unmark() == nil {
			return nil
		}
	}
	return err
}
