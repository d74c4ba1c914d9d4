package lockfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/platform"
)

// Own is a whole claim of ours on disk: a lock file or a marker. For a reader it is the
// lock file of all readers, which another reader may have written. As long as we have it, the
// file is open and its own lock ours. So no other file can get its inode.
type Own struct {
	File       *platform.File
	Path       string
	Claim      evidence.Claim
	Data       []byte    // what is in it; nil before it is whole
	written    time.Time // when that was done, or later
	remembered bool      // its filesystem may show an older file in its place: see holdsAnew
	OtherNames bool      // it had further names when IsOurs looked
	// released is what it says when it is released, and releasedAt where. Empty for readers, as
	// others may go on.
	released   string
	releasedAt int64
}

// steps names the steps that create passes.
type steps struct{ created, locked, checked, written string }

var (
	createSteps = steps{StepCreated, StepOwnLocked, StepChecked, StepWritten}
	markerSteps = steps{StepMarkerCreated, StepMarkerLocked, StepMarkerChecked, StepMarkerWritten}
	rightSteps  = steps{StepRightCreated, "", "", StepRightWritten}
)

// Create makes the lock file, with its own lock and a claim of ours. The error matches
// fs.ErrExist when something is there, and is ErrMoved when another look is worth it. On
// failure nothing of ours is left.
func (t *Taker) Create(ctx context.Context) (*Own, error) {
	if t.ready != nil {
		if own, err := t.publish(); own != nil || err != nil {
			return own, err
		}
	}
	return t.create(ctx, t.Path, t.Mode, createSteps)
}

// create is Create for any file: the lock file, a marker, or a right.
func (t *Taker) create(ctx context.Context, path string, mode platform.Mode, at steps) (*Own, error) {
	if t.marks() && !t.Fallback {
		return t.createInPlace(ctx, path, true, mode, at)
	}
	return t.createAside(ctx, path, mode, at)
}

// createInPlace makes the file with its mark, by one act, then locks it and writes the claim.
// The mark stays. It says that the file's maker locks it: if its lock is free and it has no
// whole claim, its maker died here. The content tells whether the claim is whole. Taking the
// mark away instead would be a second write. A loss of power could keep that without the
// first.
func (t *Taker) createInPlace(ctx context.Context, path string, mark bool, mode platform.Mode, at steps) (*Own, error) {
	f, err := platform.CreateAs(path, mark, t.Perm)
	if err != nil {
		t.Abandon(f, path)
		return nil, fmt.Errorf("lock: %w", err)
	}
	t.at(at.created)
	if t.HasOwnLocks() {
		// Rule A. A process that has its lock now only looks, or takes it for a dead holder's. In
		// the latter case rule B keeps us from using it.
		if f, err = t.lockOwn(ctx, f, path, mode); err == platform.ErrBusy {
			err = t.refuse(Refusal{Path: t.Path, State: evidence.Held, Evidence: evidence.KernelLockHeld})
		}
		if err != nil {
			t.Abandon(f, path)
			return nil, err
		}
		t.at(at.locked)
	}
	if there, err := f.IsAt(path); err != nil { // rule B
		t.Abandon(f, path)
		return nil, fail.At("check", path, err)
	} else if !there {
		return nil, fail.Join(ErrMoved, f.Close())
	}
	t.at(at.checked)
	own, err := t.writeClaim(f, path, mode, t.Now())
	if err == nil {
		t.at(at.written)
	}
	return own, err
}

// createAside is for places that keep no mark, or where a mark proves nothing because nobody
// can tell whether the file's lock is free. The file appears at path (link(2)) only when its
// claim is whole and its own lock ours. A crash before that leaves it under another name, in
// nobody's way.
func (t *Taker) createAside(ctx context.Context, path string, mode platform.Mode, at steps) (*Own, error) {
	aside := t.Marker + ".new" // one name for all, where the next one can tell whether it is in use
	if t.Renews() {
		aside = t.Marker + "." + NewNonce()
	}
	f, err := platform.CreateAs(aside, false, t.Perm)
	if errors.Is(err, fs.ErrExist) {
		return nil, t.RemoveLeftover(ctx, aside)
	} else if err != nil {
		t.Abandon(f, aside)
		return nil, fmt.Errorf("lock: %w", err)
	}
	if t.HasOwnLocks() {
		if f, err = t.lockOwn(ctx, f, aside, mode); err == platform.ErrBusy {
			err = ErrMoved // the process that has it takes it for a leftover
		}
		if err != nil {
			t.Abandon(f, aside)
			return nil, err
		}
		t.at(at.locked)
	}
	if there, err := f.IsAt(aside); err != nil {
		t.Abandon(f, aside)
		return nil, fail.At("check", aside, err)
	} else if !there {
		return nil, fail.Join(ErrMoved, f.Close())
	}
	own, err := t.writeClaim(f, aside, mode, t.Now())
	if err != nil {
		return nil, err
	}
	t.at(at.written)
	err = f.Link(path)
	if errors.Is(err, errors.ErrUnsupported) {
		// Without hard links, only age clears what a crash leaves half made.
		if err := t.discard(own); err != nil {
			return nil, err
		}
		return t.createInPlace(ctx, path, false, mode, at)
	}
	t.at(at.created)
	if err != nil && !own.isLinked(path) {
		return nil, fail.Join(fmt.Errorf("lock: %w", err), t.discard(own))
	}
	own.Path = path
	if err := fail.UnlessAbsent(platform.Remove(aside)); err != nil {
		return nil, fail.Join(fmt.Errorf("lock: %w", err), t.discard(own))
	}
	t.at(at.checked)
	return own, nil
}

// isLinked reports whether the file has a further name, at path, though link(2) gave an error.
// A server's answer may be lost; asked once more, it says that the name is taken. Source:
// link(2), BUGS.
func (o *Own) isLinked(path string) bool {
	if at, err := o.File.IsAt(path); err != nil || !at {
		return false
	}
	holds, err := holdsAnew(path, o.Data)
	return err == nil && holds
}

// RemoveLeftover removes the file that a dead process has left aside, under the one name that
// all use. The error is ErrMoved when that is done, or its maker is still at work.
func (t *Taker) RemoveLeftover(ctx context.Context, aside string) error {
	f, err := t.LookLocked(ctx, aside, platform.Exclusive)
	switch {
	case t.isRefused(err):
		return ErrMoved // somebody is making theirs
	case err != nil:
		return err
	case f.File == nil:
		return fail.At("create", aside, errors.New("something that is not a lock file is in the way"))
	}
	if err = t.Remove(ctx, aside, f, ""); err == nil {
		err = ErrMoved
	}
	return fail.Join(err, f.Close())
}

// writeClaim writes a claim of ours into a new file, whose own lock is ours. On failure it
// removes the file.
func (t *Taker) writeClaim(f *platform.File, path string, mode platform.Mode, at time.Time) (*Own, error) {
	own := &Own{File: f, Path: path, Claim: t.newClaim(f, mode, at), remembered: !t.Fsys.Trusted}
	data, err := t.encode(own.Claim)
	if err == nil {
		err = f.WriteAt(data, 0)
	}
	if err == nil && !t.Fsys.Trusted {
		err = f.Sync() // a server's full disk may show only here
	}
	if err != nil {
		return nil, fail.Join(fmt.Errorf("lock: %w", err), t.discard(own))
	}
	own.Data, own.written = data, time.Now()
	if mode == platform.Exclusive {
		own.released, own.releasedAt = evidence.SayReleased(data)
	}
	return own, nil
}

// newClaim describes this process as the holder of the lock, in this file, since a time.
func (t *Taker) newClaim(own *platform.File, mode platform.Mode, at time.Time) evidence.Claim {
	self, host := platform.Self(), platform.ThisHost()
	c := evidence.Claim{
		PID:           self.PID,
		CreatedAt:     at.UTC(),
		OwnerPID:      t.OwnerPID,
		Cmd:           t.Cmd,
		Nonce:         t.Nonce,
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
	if !platform.OwnLocks && t.Standing != nil {
		locked = t.Standing
	}
	if t.Renews() {
		c.RenewedAt, c.StaleAfter = renewalTime(c.CreatedAt), t.Span()
	} else {
		c.KernelLock = t.lockName(locked.ID())
	}
	if mode == platform.Shared {
		c.Mode = evidence.ModeShared
	}
	return c
}

// NewNonce returns at least 128 random bits, in base32.
func NewNonce() string { return rand.Text() }

const nonceLength = 26

// encode encodes a claim of ours, with the fields of Format.Fields.
func (t *Taker) encode(c evidence.Claim) ([]byte, error) {
	var fields map[string]string
	if t.Fields != nil {
		fields = t.Fields(c)
	}
	data, err := c.Encode(fields)
	if err != nil {
		return nil, fmt.Errorf("%w: encoding the claim: %w", ErrInvalidName, err)
	}
	if t.Parse != nil { // before a file that nobody can read shuts anybody out
		if _, err = t.decode(data); err != nil && !errors.Is(err, errParse) {
			err = fmt.Errorf("%w, which can't read a claim of this File's own: %w", errParse, err)
		}
	}
	return data, err
}

// Renews reports whether others may have to judge this holder by age, because the kernel that
// they ask may not be the one that knows.
func (t *Taker) Renews() bool { return t.Fallback || !t.Fsys.Trusted }

// maxDir bounds the working directory in a claim: a byte of it may take six there.
const maxDir = 1 << 10

// KnowSelf asks for what claims say of this process, once: others would wait for it later.
var KnowSelf = sync.OnceFunc(func() {
	platform.Self()
	platform.ThisHost()
	platform.User()
	workingDir()
})

// workingDir is that of the process when it first acquired a lock, as it seldom changes.
var workingDir = sync.OnceValue(func() string {
	dir := platform.WorkingDir()
	if len(dir) > maxDir {
		return ""
	}
	return dir
})

// renewalTime drops the fraction, so that the encoded time always has the same length: a
// renewal overwrites the claim in place.
func renewalTime(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// IsOurs returns nil if the path leads to the very file that we made, and it begins with what
// we wrote; otherwise ErrLost. (Something appended does not make it another's.) As a rule the
// file's time tells whether it was written to, and it need not be read. That time is at most
// the time after our last write, unless somebody wrote later, or set it.
func (o *Own) IsOurs() error {
	info, id, err := platform.Look(o.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrLost
	case err != nil:
		return fail.At("check", o.Path, err)
	case id != o.File.ID(), info.Links == 0:
		return ErrLost
	}
	o.OtherNames = info.Links > 1
	if o.Data == nil || !o.remembered && info.Size == int64(len(o.Data)) && !info.Modified.After(o.written) {
		return nil
	}
	holds, err := o.File.Begins(o.Data)
	if o.remembered {
		holds, err = holdsAnew(o.Path, o.Data)
	}
	switch {
	case err != nil:
		return fail.At("check", o.Path, err)
	case !holds:
		return ErrLost
	}
	return nil
}

// SayReleased makes the claim say that it was released, through the open file, in one of two
// ways. A process that has an append-only file open can still write over it. A filesystem
// without a block to spare, where writing takes one, still changes a mode.
func (o *Own) SayReleased() error {
	if o.released == "" {
		return nil // the kernel lock says it all
	}
	still, err := o.File.Begins(o.Data)
	if err == nil && !still {
		// Somebody has written over it. It says nothing of ours any more. If it was cut, the mark
		// says that its maker is dead once its lock is free.
		return nil
	}
	if err == nil {
		err = o.File.WriteAt([]byte(o.released), o.releasedAt)
	}
	if err != nil && platform.KeepsMarks && o.Claim.KernelLock != "" {
		if o.File.Unmark() == nil {
			return nil
		}
	}
	return err
}
