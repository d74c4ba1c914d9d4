package lock

import (
	"bytes"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/platform"
)

// End says how a holder came to an end.
type End string

const (
	// EndReleased: it gave up the lock.
	EndReleased End = "released"
	// EndDied: it died while it had the lock, or released it as if it had died (see
	// FileHold.ReleaseAsDied): its work may be half done. Evidence says how that is known.
	EndDied End = "died"
	// EndPresumed: nothing but its age spoke against it, and it was taken for dead.
	EndPresumed End = "taken for dead"
	// EndUnknown: its lock file is gone, and it left no word. Somebody removed the file.
	EndUnknown End = "unknown"
)

// Predecessor is who had a lock before.
type Predecessor struct {
	// Info is the claim. A long Cmd is cut. Of a holder whose end is EndUnknown only PID and
	// Nonce are known.
	Info LockInfo `json:"holder"`
	How  End      `json:"how"`
	// Ended is when it released the lock; zero if it died with it, or that is not known.
	Ended time.Time `json:"ended,omitzero"`
	// Evidence is why it was judged dead, or what ReleaseAsDied was told; empty for one that
	// released.
	Evidence Evidence `json:"evidence,omitempty"`
	// Note is what it last said of its work (see FileHold.Note), and NotedAt when.
	Note    string    `json:"note,omitempty"`
	NotedAt time.Time `json:"noted_at,omitzero"`
}

// Predecessor returns who had the lock before this holder, exclusively; nil if nothing is
// known of anybody. Readers leave no word, nor do programs that take part without holdfast
// (unless they died), nor whoever took the lock without being given it (a cancelled
// Acquire). It is kept in the sibling, and lost with it.
//
// One FileHold always gives the same answer. After Release or a loss (ErrLost), it gives
// only what was asked for before. Other errors are the system's, from reading the sibling.
func (h *FileHold) Predecessor() (*Predecessor, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.recalled {
		if err := h.stillHolds("look back from"); err != nil {
			return nil, err
		}
		if err := h.recall(); err != nil {
			return nil, err
		}
	}
	m := h.before
	if dead := h.attempt.untold; dead != nil {
		m.last, m.lastSum = endOf(dead), ""
		if _, at := m.noteOf(dead.Info); at.IsZero() {
			m.note = nil
		}
	}
	return m.predecessor(), nil
}

// predecessor is who ended last; nil if that is not known. See memory.go for whose note
// counts.
func (m *memory) predecessor() *Predecessor {
	var p Predecessor
	n := m.note
	switch {
	case n != nil && n.After == m.lastSum && (m.last == nil || m.last.Info.Nonce != n.Nonce):
		p = Predecessor{Info: LockInfo{PID: n.PID, Nonce: n.Nonce}, How: EndUnknown}
	case m.last != nil:
		p = Predecessor{Info: m.last.Info, How: m.last.How, Ended: m.last.Ended, Evidence: m.last.Evidence}
	default:
		return nil
	}
	p.Note, p.NotedAt = m.noteOf(&p.Info)
	return &p
}

// wasHeld reports whether a dead claim is that of an exclusive holder. (Of those who died
// while claiming there is none. A readers' file does not say who read last.)
func wasHeld(c *LockInfo) bool { return c != nil && c.Mode != modeShared }

func sameHolding(a, b LockInfo) bool {
	return a.PID == b.PID && a.CreatedAt.Equal(b.CreatedAt) && a.Nonce == b.Nonce
}

// endOf tells the end of a holder who was judged dead.
func endOf(dead *ErrLocked) *lastRecord {
	l := &lastRecord{How: EndDied, Evidence: dead.Evidence}
	l.Info, _ = fitting(*dead.Info)
	switch dead.Evidence {
	case EvidenceAged:
		l.How = EndPresumed
	case EvidenceSaysReleased:
		l.How = EndReleased
	}
	return l
}

// rememberDead writes into the sibling how a dead holder ended, before its lock file goes.
// So the next one knows even if this one dies on the way, is a reader, or only breaks the
// lock. What can't be written is kept for this one: reclaiming must not fail for it.
func (a *attempt) rememberDead(dead *ErrLocked) {
	a.untold = nil
	if !wasHeld(dead.Info) {
		return
	}
	a.untold = dead
	f, done, err := a.openMemory(os.O_RDWR)
	if err != nil {
		return
	}
	defer done()
	var last [siblingSize - lastOffset]byte
	n, err := f.ReadAt(last[:], lastOffset)
	if err == nil && bytes.Contains(last[:n], []byte(dead.Info.Nonce)) {
		var l lastRecord
		if decodeRecord(last[:n], &l) != "" && sameHolding(l.Info, *dead.Info) { // it told by itself
			a.untold = nil
			return
		}
	}
	end := endOf(dead)
	_, claim := fitting(end.Info)
	if f.WriteAt(encodeEnd(claim, end.Ended, end.How, end.Evidence), lastOffset) == nil {
		a.untold = nil
	}
}

// rememberEnd writes into the sibling that this holder has released the lock, when its name
// has gone, and its kernel locks not yet. Errors are ignored, as a release must not fail for
// it. The caller has h.mu.
//
// Everybody behind waits for us. So package json is left out, for the reason that
// LockInfo.encode gives. And whether the sibling that we have locked is still at its path is
// known only if there was a note; if not, what we write is lost with it.
func (h *FileHold) rememberEnd() {
	a := h.attempt
	if h.unused || a.mode == platform.Shared {
		return
	}
	claim := bytes.TrimSuffix(h.own.data, []byte{'\n'})
	if len(claim) > maxRemembered {
		_, claim = fitting(h.own.claim)
	}
	how, why := EndReleased, Evidence("")
	if h.asDied != nil {
		how, why = EndDied, *h.asDied
	}
	record := encodeEnd(claim, a.now(), how, why)
	if len(record) > siblingSize-lastOffset {
		record = encodeEnd(claim, a.now(), how, "")
	}
	if f := a.siblingLock; f != nil && !a.siblingGone {
		if notAlien(f, a.siblingInfo) == nil {
			_ = f.WriteAt(record, lastOffset)
		}
		return
	}
	if f, done, err := a.openMemory(os.O_RDWR); err == nil {
		_ = f.WriteAt(record, lastOffset)
		_ = done()
	}
}

// encodeEnd makes a lastRecord from the holder's claim, in the order of its fields.
func encodeEnd(claim []byte, ended time.Time, how End, e Evidence) []byte {
	b := append(append(newRecord(len(claim)+128), `{"holder":`...), claim...)
	if !ended.IsZero() {
		b = append(ended.UTC().AppendFormat(append(b, `,"ended":"`...), time.RFC3339Nano), '"')
	}
	b = appendJSON(append(b, `,"how":`...), string(how))
	if e != "" {
		b = appendJSON(append(b, `,"evidence":`...), string(e))
	}
	return endRecord(append(b, '}'))
}

// ReleaseAsDied is Release for a holder under whose lock work was cut short: the lock is free
// afterwards, and the next holder's Predecessor has EndDied, with why as its Evidence. A
// session's keeper calls it when the session's owner (File.OwnerPID) has ended without a
// release. A why that is too long for the sibling's record is left out. For readers, and for a
// lock that was released before, it is Release.
func (h *FileHold) ReleaseAsDied(why Evidence) error {
	h.mu.Lock()
	h.asDied = &why
	h.mu.Unlock()
	return h.Release()
}

// ReleaseUnused is Release for a holder that has done nothing under the lock, such as one
// whose caller has gone by then. It leaves no word: the one before stays the predecessor of the
// next.
func (h *FileHold) ReleaseUnused() error {
	h.mu.Lock()
	h.unused = true
	h.mu.Unlock()
	return h.Release()
}

// maxRemembered bounds the claim in a record. The rest is room for the other fields, with
// the longest Evidence.
const maxRemembered = siblingSize - lastOffset - 256

// fitting shortens a claim so that it fits in a record, and encodes it. Another program's
// may be of any size, and of a year that has no place in a claim: that time is not known.
func fitting(c LockInfo) (LockInfo, []byte) {
	if y := c.CreatedAt.Year(); y < 0 || y > 9999 {
		c.CreatedAt = time.Unix(0, 0).UTC()
	}
	for {
		data, err := c.encode(nil)
		if err == nil && len(data) <= maxRemembered {
			return c, data[:len(data)-1]
		}
		end := len(c.Cmd) / 2
		for end > 0 && !utf8.RuneStart(c.Cmd[end]) {
			end--
		}
		switch {
		case err != nil || c.Cmd == "":
			c = LockInfo{PID: c.PID, CreatedAt: c.CreatedAt}
		case end == 0:
			c.Cmd = ""
		default:
			c.Cmd = strings.TrimSuffix(c.Cmd[:end], "…") + "…"
		}
	}
}
