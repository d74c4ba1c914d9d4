package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Prepare makes the lock file for a caller that is about to wait: with its mark, its own lock
// and a claim, but without a name. A process that has waited finds its caches cold, and all
// behind it wait while it makes the file. Then only the time is left to write, and the name to
// give. Where this can't be done, Create does it all. A crash leaves nothing.
func (t *Taker) Prepare() {
	// (A Format may say of a claim what depends on its time.)
	if t.ready != nil || t.Mode != platform.Exclusive || t.Fallback || !t.marks() || t.Fields != nil || t.Parse != nil {
		return
	}
	f, err := platform.CreateUnnamed(t.Path, t.Perm)
	if err == nil {
		err = f.TryLock(platform.Exclusive) // rule A, before anybody can come across the file
	}
	if err == nil {
		_, err = f.Stat()
	}
	if err != nil {
		_ = f.Close()
		return
	}
	t.ready, _ = t.writeClaim(f, t.Path, platform.Exclusive, inFull(t.Now()))
}

// publish is Create with the prepared file. It appears at its path whole, and locked: link(2)
// fails where anything is. So the path leads to it (rule B), and nobody else can have removed
// it since (rule A). own is nil if the file must be made anew. After an error that matches
// fs.ErrExist the prepared file is good for the next try.
func (t *Taker) publish() (own *Own, err error) {
	own = t.ready
	at := inFull(t.Now()).UTC()
	old, stamp := stampOf(own.Claim.CreatedAt), stampOf(at)
	place := bytes.Index(own.Data, old)
	if place < 0 || len(stamp) != len(old) || own.File.WriteAt(stamp, int64(place)) != nil {
		t.DropPrepared()
		return nil, nil
	}
	copy(own.Data[place:], stamp)
	own.Claim.CreatedAt = at
	switch err := own.File.GiveName(); {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("lock: %w", err)
	case err != nil: // the folder may have moved; making the file anew tells
		t.DropPrepared()
		return nil, nil
	}
	t.ready, own.written = nil, time.Now()
	t.at(StepPublished)
	return own, nil
}

// inFull makes a time one that is written with all its digits, so that another can be written
// over it.
func inFull(t time.Time) time.Time {
	if t.Nanosecond()%10 == 0 {
		return t.Add(time.Nanosecond)
	}
	return t
}

// stampOf is how a claim says when it was made.
func stampOf(t time.Time) []byte { return t.AppendFormat(nil, time.RFC3339Nano) }

// DropPrepared lets go of a prepared file that is not needed.
func (t *Taker) DropPrepared() {
	if t.ready != nil {
		_ = t.ready.File.Close()
		t.ready = nil
	}
}
