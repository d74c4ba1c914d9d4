package record

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/plainjson"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

const (
	// MaxNote is the size of a note, in bytes.
	MaxNote = 1 << 10
	// noteRoom is its size in the file. A control character, or what is not UTF-8, takes six
	// bytes there, so there may be some 300 of these.
	noteRoom = 1984
	// maxClaim bounds a claim in a word. The rest of the word is for the note, and for names.
	maxClaim = wordRoom - noteRoom - 128
	// maxName bounds a nonce in a claim that is too long all the same. Holdfast's has 26.
	maxName = 64
)

// ErrTooLong is the error of a note that has no room.
var ErrTooLong = errors.New("the note is too long")

// CheckNote returns ErrTooLong, with the reason, if a note has no room.
func CheckNote(text string) error {
	if len(text) > MaxNote {
		return fmt.Errorf("%w: it has %d bytes; at most %d", ErrTooLong, len(text), MaxNote)
	}
	if n := len(plainjson.Append(nil, text)); n > noteRoom {
		return fmt.Errorf("%w: it takes %d bytes on disk, as it has many control characters; at most %d", ErrTooLong, n, noteRoom)
	}
	return nil
}

// Note writes what a holder says of its work. On error the note before stands. The holder, or
// a process that works for it, calls this while the holder has the lock.
func Note(f *platform.File, holder evidence.Claim, text string, at time.Time) error {
	if err := CheckNote(text); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	data := buffers.Get().(*buffer)
	defer buffers.Put(data)
	m, err := toWrite(f, info, data)
	if err != nil {
		return err
	}
	slot, turn, _ := m.place(&holder)
	_, claim := Fit(holder)
	b := plainjson.Append(append(newWord(nil, turn, nameOf(&holder), claim), `,"note":`...), text)
	b = append(at.UTC().AppendFormat(append(b, `,"noted_at":"`...), time.RFC3339Nano), `"}`...)
	return m.write(f, endLine(b, 0), slotAt(slot)+endRoom)
}

// Tell writes how a holder ended. encoded is its claim in JSON, or nil. info is that of the
// file. What the holder has told itself stands: encoded is for the holder, whose word replaces a
// reclaimer's. The holder calls this while it still has the kernel locks, and a reclaimer while
// it has the dead holder's.
func Tell(f *platform.File, info platform.Info, holder evidence.Claim, encoded []byte, e Ending) error {
	return tell(f, info, holder, encoded, e, false)
}

// TellIfNews is Tell for a holder that has released, and said nothing. It writes only if the last
// record is of a holder that did not release, which is over now, or if a line is not whole.
func TellIfNews(f *platform.File, info platform.Info, holder evidence.Claim, encoded []byte, e Ending) error {
	return tell(f, info, holder, encoded, e, true)
}

func tell(f *platform.File, info platform.Info, holder evidence.Claim, encoded []byte, e Ending, ifNews bool) error {
	data := buffers.Get().(*buffer)
	defer buffers.Put(data)
	m, err := toWrite(f, info, data)
	if err != nil {
		return err
	}
	own, name := len(encoded) > 0, nameOf(&holder)
	slot, turn, fresh := m.place(&holder)
	if !fresh && !own && m.slots[slot].ending() != (Ending{}) || ifNews && fresh && !m.torn && m.isOver() {
		return nil
	}
	if len(encoded) == 0 || len(encoded) > maxClaim {
		_, encoded = Fit(holder)
	}
	room := buffers.Get().(*buffer)
	defer buffers.Put(room)
	b := newEnd(room[:0], name, e)
	if len(b) > endRoom {
		e.Evidence = ""
		b = newEnd(room[:0], name, e)
	}
	if fresh {
		clear(room[len(b):endRoom])
		b = endLine(append(newWord(room[:endRoom], turn, name, encoded), '}'), endRoom)
	}
	return m.write(f, b, slotAt(slot))
}

// toWrite reads a sibling for a caller that is to write to it. The error is ErrAlien for
// another's file. What it returns is good as long as data is.
func toWrite(f *platform.File, info platform.Info, data *buffer) (Memory, error) {
	m, err := read(f, info, data)
	if err == nil && m.Alien {
		err = fail(f, ErrAlien)
	}
	return m, err
}

// place says into which slot a holder writes, and with which turn. fresh says that its record
// is not there yet.
func (m *Memory) place(holder *evidence.Claim) (slot int, turn int64, fresh bool) {
	if i := m.find(holder); i >= 0 {
		return i, m.slots[i].turn, false
	}
	last := m.last()
	if last < 0 {
		return 0, 1, true
	}
	return 1 - last, nextTurn(m.slots[last].turn), true
}

// isOver reports whether the last record is of a holder that released, or there is none.
func (m *Memory) isOver() bool {
	i := m.last()
	if i < 0 {
		return true
	}
	s := &m.slots[i] // without package json, as in turnOf
	return bytes.Contains(s.end, []byte(`","how":"released"`)) && nameIn(s.end, ofField) == s.of()
}

// write writes lines, and then has the filesystem give the second slot its block, too. So a disk
// that is full later does not keep a holder from a word that its predecessor had room for. A
// file that could not be written stays empty: NULs alone, without a mark, would be an alien's.
func (m *Memory) write(f *platform.File, lines []byte, at int64) error {
	if err := f.WriteAt(lines, at); err != nil {
		return err
	}
	if end := slotAt(1) + endRoom; int64(m.size) < end && at+int64(len(lines)) < end {
		_ = f.WriteAt([]byte{0}, end-1) // what can't be had now is an error when it is needed
	}
	return nil
}

// IsEmpty reports whether a sibling of this size has no record.
func IsEmpty(size int64) bool { return size <= firstSlot }

// newWord begins a word behind what is in b; '}' and endLine end it.
func newWord(b []byte, turn int64, name string, claim []byte) []byte {
	b = strconv.AppendInt(append(newLine(b), turnField...), turn, 10)
	b = append(append(append(b, ','), ofField...), name...)
	return append(append(b, `","holder":`...), claim...)
}

// newEnd makes the line of an end, behind what is in b.
func newEnd(b []byte, name string, e Ending) []byte {
	b = append(append(append(newLine(b), '{'), ofField...), name...)
	b = plainjson.Append(append(b, `","how":`...), e.How)
	if !e.Ended.IsZero() {
		b = append(e.Ended.UTC().AppendFormat(append(b, `,"ended":"`...), time.RFC3339Nano), '"')
	}
	if e.Evidence != "" {
		b = plainjson.Append(append(b, `,"evidence":`...), string(e.Evidence))
	}
	return endLine(append(b, '}'), 0)
}

// Fit shortens a claim so that it fits in a word, and encodes it. Another program's claim may
// be of any size. It may be of a year that has no place in a claim: that time is not known.
func Fit(c evidence.Claim) (evidence.Claim, []byte) {
	if y := c.CreatedAt.Year(); y < 0 || y > 9999 {
		c.CreatedAt = time.Unix(0, 0).UTC()
	}
	for {
		data, err := c.Encode(nil)
		if err == nil && len(data) <= maxClaim {
			return c, data[:len(data)-1]
		}
		text := strings.TrimSuffix(c.Cmd, "…")
		end := len(text) / 2
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		switch {
		case err != nil || c.Cmd == "":
			if len(c.Nonce) > maxName {
				c.Nonce = ""
			}
			c = evidence.Claim{PID: c.PID, CreatedAt: c.CreatedAt, Nonce: c.Nonce}
		case end == 0:
			c.Cmd = ""
		default:
			c.Cmd = text[:end] + "…"
		}
	}
}
