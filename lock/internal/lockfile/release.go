package lockfile

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// RemoveOwn removes our lock file, and no other; a readers' file only if we are the last
// reader. It returns ErrLost when the file is not ours. (Rule A: we have its own lock.)
func (t *Taker) RemoveOwn(own *Own) error {
	if err := own.IsOurs(); err != nil { // rule B
		return err
	}
	t.at(StepOwned)
	if t.Mode == platform.Shared {
		return t.leave(own.File, t.at)
	}
	var err error
	if t.Renews() {
		err = t.removeWithRight(own)
	} else {
		err = platform.Remove(t.Path)
	}
	switch {
	case err == nil:
		t.at(StepRemoved)
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrLost):
		return ErrLost
	}
	return fail.At("release", t.Path, err)
}

// removeWithRight removes our lock file where that takes a right: see remove. Another process
// that has the right has taken us for dead, or is about to find out that we live.
func (t *Taker) removeWithRight(own *Own) error {
	ctx, poll := context.Background(), pace.New(pace.Longest)
	remover := *t
	remover.Waiter, remover.Tries = nil, pace.Tries
	for try := 1; ; try++ {
		var f Finding
		err := f.read(t.Lock, own.File)
		if err == nil {
			err = remover.Remove(ctx, own.Path, &f, "")
		}
		if err != ErrMoved && !remover.isRefused(err) || try == pace.Moves {
			return err
		}
		if err := own.IsOurs(); err != nil {
			return err
		}
		poll.Sleep(ctx)
	}
}

// Renew writes a later time into the claim: to the open file, in place, without changing its
// length. So only our own file can be touched, whatever lies at the path by now, and a reader
// finds a whole claim at any moment.
func (t *Taker) Renew(o *Own, now time.Time) error {
	claim := o.Claim
	claim.RenewedAt = renewalTime(now)
	data, err := t.encode(claim)
	if err != nil {
		return err
	}
	if err := o.File.WriteAt(data, 0); err != nil {
		if wrote, herr := o.File.Begins(data); herr != nil || !wrote {
			return err
		}
	}
	o.Claim, o.Data, o.written = claim, data, time.Now()
	return nil
}
