package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// makers bounds the goroutines that prepare a file: a filesystem that takes no writes for now (a
// frozen one) keeps each of them.
var makers = make(chan struct{}, 8)

// Preparing counts them.
func Preparing() int { return len(makers) }

// Prepare begins to make the lock file for a caller that is about to wait: with its mark, its own
// lock and a claim, but without a name. A process that has waited finds its caches cold, and all
// behind it wait while it makes the file. Then only the time is left to write, and the name to
// give. Where this can't be done, or is not done by then, Create does it all. A crash leaves
// nothing. The file has the group and the rights of a file that is made now.
func (t *Taker) Prepare() {
	// (A Format may say of a claim what depends on its time.)
	if t.ready != nil || t.Mode != platform.Exclusive || t.Fallback || !t.marks() || t.Fields != nil || t.Parse != nil {
		return
	}
	select {
	case makers <- struct{}{}:
	default:
		return
	}
	ready, maker := make(chan *Own, 1), *t
	t.ready = ready
	go func() {
		ready <- maker.prepare()
		<-makers
	}()
}

// prepare returns nil if the file can't be made.
func (t *Taker) prepare() *Own {
	f, err := platform.CreateUnnamed(t.Path, t.Perm)
	if err == nil {
		err = f.TryLock(platform.Exclusive) // rule A, before anybody can come across the file
	}
	if err == nil {
		_, err = f.Stat()
	}
	if err != nil {
		_ = f.Close()
		return nil
	}
	own, _ := t.writeClaim(f, t.Path, platform.Exclusive, inFull(t.Now()))
	return own
}

// publish is Create with the prepared file. It appears at its path whole, and locked: link(2)
// fails where anything is. So the path leads to it (rule B), and nobody else can have removed
// it since (rule A). Without an error own may be nil: then the file must be made anew.
func (t *Taker) publish() (own *Own, err error) {
	select {
	case own = <-t.ready:
		t.ready = nil
	default:
	}
	if own == nil {
		t.DropPrepared()
		return nil, nil
	}
	at := inFull(t.Now()).UTC()
	old, stamp := stampOf(own.Claim.CreatedAt), stampOf(at)
	place := bytes.Index(own.Data, old)
	if place < 0 || len(stamp) != len(old) || own.Claim.User != platform.User() || own.File.WriteAt(stamp, int64(place)) != nil {
		_ = own.File.Close()
		return nil, nil
	}
	copy(own.Data[place:], stamp)
	own.Claim.CreatedAt = at
	if err := own.File.GiveName(); err != nil {
		_ = own.File.Close()
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("lock: %w", err)
		}
		return nil, nil // the folder may have moved; making the file anew tells
	}
	own.written = time.Now()
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

// DropPrepared lets go of a prepared file that is not needed. It waits for nothing.
func (t *Taker) DropPrepared() {
	if t.ready == nil {
		return
	}
	ready := t.ready
	t.ready = nil
	drop := func(own *Own) {
		if own != nil {
			_ = own.File.Close()
		}
	}
	select {
	case own := <-ready:
		drop(own)
	default:
		go func() { drop(<-ready) }()
	}
}
