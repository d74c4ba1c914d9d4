package lock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/record"
	"github.com/holdfast-go/holdfast/platform"
)

// End says how a holder ended.
type End string

const (
	// EndReleased: it gave up the lock.
	EndReleased End = "released"
	// EndDied: it died with the lock, or released it as if it had died (see
	// FileHold.ReleaseAsDied): its work may be half done. Evidence says how that is known.
	EndDied End = "died"
	// EndPresumed: nothing but its age spoke against it, and it was taken for dead.
	EndPresumed End = "taken for dead"
	// EndUnknown: its lock file is gone, and it left no word. Somebody removed the file.
	EndUnknown End = "unknown"
)

// Predecessor is the previous holder of a lock.
type Predecessor struct {
	// Info is the claim. A long Cmd is cut.
	Info evidence.Claim `json:"holder"`
	How  End            `json:"how"`
	// Ended is when it released the lock; zero if it died with it, or that is not known.
	Ended time.Time `json:"ended,omitzero"`
	// Evidence is why it was judged dead, or what ReleaseAsDied was told; empty for one that
	// released.
	Evidence evidence.Evidence `json:"evidence,omitempty"`
	// Note is what it last said of its work (see FileHold.Note), and NotedAt when.
	Note    string    `json:"note,omitempty"`
	NotedAt time.Time `json:"noted_at,omitzero"`
}

// Predecessor returns the last exclusive holder before this one that has left word; nil if none
// is known. A holder that died leaves word, and one that released, if it noted something, asked
// for a fence or for its own Predecessor, named the lock to children (FileHold.Environ), or came
// after one that did not release. Readers leave
// no word. Nor do programs that take part without holdfast (unless they died), nor a cancelled
// Acquire, which took the lock for nobody. The word is kept in the sibling, and lost with it.
//
// One FileHold always gives the same answer. After Release or a loss (ErrLost), it gives only
// what was asked for before. Other errors are the system's, from reading the sibling.
func (h *FileHold) Predecessor() (*Predecessor, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.asked {
		if err := h.stillHolds("look back from"); err != nil {
			return nil, err
		}
		m, err := h.attempt.memory()
		if err != nil {
			return nil, err
		}
		h.before, h.asked = predecessorOf(m.Last(&h.own.Claim)), true
		if dead := h.attempt.untold; dead != nil {
			h.before = predecessorOf(&record.Record{Ending: endOf(dead)})
			h.before.Info, _ = record.Fit(*dead.Claim)
			if r := m.Of(dead.Claim); r != nil {
				h.before.Note, h.before.NotedAt = r.Note, r.NotedAt
			}
		}
	}
	if h.before == nil {
		return nil, nil
	}
	copied := *h.before
	return &copied, nil
}

// memory reads what the sibling remembers: nothing if there is none, or another's file.
func (a *attempt) memory() (m record.Memory, err error) {
	f, done, err := a.openMemory(os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	} else if err != nil {
		return m, fmt.Errorf("lock: %w", err)
	}
	m, err = record.Read(f)
	if err = fail.Join(err, done()); err != nil {
		return m, fmt.Errorf("lock: %w", err)
	}
	return m, nil
}

// predecessorOf is the Predecessor that a record tells of; nil for nil.
func predecessorOf(r *record.Record) *Predecessor {
	if r == nil {
		return nil
	}
	return &Predecessor{
		Info: r.Holder, How: cmp.Or(End(r.How), EndUnknown), Ended: r.Ended, Evidence: r.Evidence, Note: r.Note, NotedAt: r.NotedAt,
	}
}

// wasHeld reports whether a dead claim is that of an exclusive holder. (A process that died
// while claiming left no claim. A readers' file does not name the last reader.)
func wasHeld(c *evidence.Claim) bool { return c != nil && c.Mode != evidence.ModeShared }

// endOf tells the end of a holder that was judged dead.
func endOf(dead *lockfile.Dead) record.Ending {
	how := EndDied
	switch dead.Evidence {
	case evidence.Aged:
		how = EndPresumed
	case evidence.SaysReleased:
		how = EndReleased
	}
	return record.Ending{How: string(how), Evidence: dead.Evidence}
}

// Remember writes into the sibling how a dead holder ended, before its lock file goes. So
// the next holder knows even if this one dies on the way, is a reader, or only breaks the
// lock. What can't be written is kept for this one: reclaiming must not fail for it.
func (a *attempt) Remember(dead lockfile.Dead) {
	a.untold = nil
	if !wasHeld(dead.Claim) {
		return
	}
	a.untold = &dead
	f, done, err := a.openMemory(os.O_RDWR)
	if err != nil {
		return
	}
	defer done()
	if info, err := f.Stat(); err == nil && record.Tell(f, info, *dead.Claim, nil, endOf(&dead)) == nil {
		a.untold = nil
	}
}

// rememberEnd writes into the sibling that this holder has released the lock, if there is
// something to tell: it has noted, asked for a fence, looked back, or named the lock to children,
// whose late note must find its place taken; or what the sibling remembers is of a holder that
// did not release, which is over now; or the sibling is still empty where none bears a mark, so
// that nothing shows yet that it is holdfast's. Otherwise the absence of the lock file says it
// all. The file's name has gone by then, and the kernel locks not yet. Errors are ignored, as a
// release must not fail for it. The caller has h.mu.
//
// All waiters wait for us. So package json is left out, for the reason that
// evidence.Claim.Encode gives. Whether our locked sibling is still at its path is known only
// if there was a note. If it is not, what we write is lost with it.
func (h *FileHold) rememberEnd() {
	a := h.attempt
	if h.unused || a.take.Mode == platform.Shared {
		return
	}
	tell, end := record.Tell, record.Ending{How: string(EndReleased), Ended: a.Now()}
	switch here := a.siblingLock != nil && !a.siblingGone; {
	case h.asDied != nil:
		end.How, end.Evidence = string(EndDied), *h.asDied
	case h.noted || h.named || h.asked || h.fence != 0 || a.reclaimed != nil:
	case here && record.IsEmpty(a.siblingInfo.Size):
		if a.sibling.Mark {
			return // an unmarked one is another's here
		}
	default:
		tell = record.TellIfNews
	}
	claim := bytes.TrimSuffix(h.own.Data, []byte{'\n'})
	if f := a.siblingLock; f != nil && !a.siblingGone {
		_ = tell(f, a.siblingInfo, h.own.Claim, claim, end)
	} else if f, done, err := a.openMemory(os.O_RDWR); err == nil {
		if info, err := f.Stat(); err == nil {
			_ = tell(f, info, h.own.Claim, claim, end)
		}
		_ = done()
	}
}

// ReleaseAsDied is Release for a holder under whose lock work was cut short. The lock is free
// afterwards, and the next holder's Predecessor has EndDied, with why as its Evidence. A
// session's keeper calls it when the session's owner (File.OwnerPID) has ended without a
// release. A why that is too long for the sibling's record is left out. For readers, and for a
// lock that was released before, it is Release.
func (h *FileHold) ReleaseAsDied(why evidence.Evidence) error {
	h.mu.Lock()
	h.asDied = &why
	h.mu.Unlock()
	return h.Release()
}

// ReleaseUnused is Release for a holder that has done nothing under the lock, such as one
// whose caller has gone by then. It leaves no word: the next holder's predecessor is still the
// one before.
func (h *FileHold) ReleaseUnused() error {
	h.mu.Lock()
	h.unused = true
	h.mu.Unlock()
	return h.Release()
}
