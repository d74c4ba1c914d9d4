package lock

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// What the sibling remembers, behind the lock bytes and the fence: a record of what the
// present holder says of itself, the note, and one of how the last exclusive holder ended.
//
// A record is a checksum in 8 hexadecimal digits, a blank, a JSON object, and a newline.
// What follows is left of a longer one, and means nothing.
//
// Nobody sees half a record:
//
//   - It is written by one system call, within one page of the file. The kernel copies it
//     there without looking for signals, so a kill leaves the old record or the new one.
//   - Reading it is one system call, too, but may come in the middle of that copy, as local
//     filesystems don't keep the two apart. So the checksum has the last word. If it
//     is not that of the object, the reader looks again; a copy takes less than a
//     microsecond. What stays wrong (a loss of power, another program) is no record.
//   - Two who write at the same time do so one after the other (the inode's lock). Only a
//     note has two who may: see NoteAbove.
//
// Whose record counts, its nonce decides, and not its place. A note is the holder's if it
// has the nonce of the claim in the lock file; the one before left it if it has the nonce of
// the claim that was reclaimed, or that the other record has. So a late writer can make a
// note disappear, but can't put a word into another's mouth. There is one more kind of
// note: of someone who vanished. Their lock file was removed by a hand, and neither they
// nor a reclaimer told of their end. For that a note names the record of the last end that
// its writer saw (After). As long as this is still the last, nobody has come to an end
// since, and the one who noted was the last to hold.
const (
	noteOffset = 64
	lastOffset = 2048
	// siblingSize is the size that a sibling never exceeds: the smallest page.
	siblingSize = 4096
)

var errAlien = errors.New("the file holds something else than a fence; if nobody needs that: " + beginAnew)

type noteRecord struct {
	Nonce string    `json:"nonce"` // of the claim under which it was written
	PID   int       `json:"pid"`   // of that claim
	Note  string    `json:"note"`
	At    time.Time `json:"at"`
	After string    `json:"after,omitempty"` // checksum of the lastRecord by then
}

type lastRecord struct {
	Info     LockInfo  `json:"holder"`
	Ended    time.Time `json:"ended,omitzero"`
	How      End       `json:"how"`
	Evidence Evidence  `json:"evidence,omitempty"`
}

// A memory is what a sibling remembers. The zero value remembers nothing.
type memory struct {
	fence   int64       // 0 without any
	note    *noteRecord // nil without any
	last    *lastRecord
	lastSum string // checksum of last

	// alien says that the file is not a sibling, but somebody's, and not ours to change.
	alien bool
}

// isWritten reports whether a holder has written into the sibling, and it is still there.
func (m *memory) isWritten() bool { return m.fence > 0 || m.note != nil || m.last != nil }

// memoryTries is how often a record is read that seems to be half written.
const memoryTries = 4

// readMemory reads a sibling, but for the bytes that are locked: on Windows they can't be
// read.
func readMemory(f *platform.File) (m memory, err error) {
	info, err := f.Stat()
	if err != nil {
		return memory{}, err
	}
	data := make([]byte, siblingSize-fenceOffset+1)
	for try := 1; ; try++ {
		n, err := f.ReadAt(data, fenceOffset)
		if err != nil {
			return memory{}, err
		}
		whole := m.decode(data[:n])
		if whole || try == memoryTries {
			// A further name of an empty file: somebody has linked it here.
			m.alien = m.alien || info.Links > 1 && !info.Marked() && !m.isWritten()
			return m, nil
		}
		time.Sleep(passage)
	}
}

// decode reads what lies behind the lock bytes. It reports whether all records are whole, or
// not there.
func (m *memory) decode(data []byte) (whole bool) {
	area := func(from, to int) []byte {
		from, to = from-fenceOffset, to-fenceOffset
		return data[min(from, len(data)):min(to, len(data))]
	}
	*m = memory{}
	fence, ok := parseFence(area(fenceOffset, fenceOffset+fenceDigits+1))
	long := len(data) > siblingSize-fenceOffset
	if m.alien = !ok || long; m.alien {
		return long // what is no fence may be half of one
	}
	m.fence, whole = fence, true
	note, last := area(noteOffset, lastOffset), area(lastOffset, siblingSize)
	if m.note = decodeNote(note); m.note == nil && len(bytes.Trim(note, "\x00")) > 0 {
		whole = false
	}
	l := new(lastRecord)
	if m.lastSum = decodeRecord(last, l); m.lastSum != "" && l.Info.check() == nil {
		m.last = l
	} else if len(bytes.Trim(last, "\x00")) > 0 {
		whole = false
	}
	return whole
}

// decodeNote decodes the note in its area; nil if there is none that is whole.
func decodeNote(area []byte) *noteRecord {
	n := new(noteRecord)
	if decodeRecord(area, n) == "" || n.Nonce == "" || n.PID <= 0 {
		return nil
	}
	return n
}

// decodeRecord decodes the record at the beginning of an area, and returns its checksum; ""
// if there is none that is whole.
func decodeRecord(area []byte, into any) (sum string) {
	line, _, ended := bytes.Cut(area, []byte{'\n'})
	if !ended || len(line) < 10 {
		return ""
	}
	sum, object := string(line[:8]), line[9:]
	if sum != checksum(object) || json.Unmarshal(object, into) != nil {
		return ""
	}
	return sum
}

func encodeRecord(object []byte) []byte { return endRecord(append(newRecord(len(object)), object...)) }

// newRecord begins a record, which has room for an object of a size; endRecord ends it.
func newRecord(size int) []byte { return append(make([]byte, 0, size+10), "12345678 "...) }

func endRecord(b []byte) []byte {
	sum := sumOf(b[9:])
	hex.Encode(b, sum[:])
	return append(b, '\n')
}

func checksum(object []byte) string {
	sum := sumOf(object)
	return hex.EncodeToString(sum[:])
}

func sumOf(object []byte) (sum [4]byte) {
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(object))
	return sum
}

// openMemory returns the sibling, to read or write what it remembers. It is the one that we
// have locked, unless that was removed or replaced meanwhile: others read the one at the
// path. The error is errAlien for a file that is somebody's. The caller calls done.
func (a *attempt) openMemory(flag int) (f *platform.File, done func() error, err error) {
	if f = a.siblingLock; f != nil && !a.siblingGone {
		info, err := f.Stat()
		if err == nil && info.Links > 0 {
			return f, func() error { return nil }, notAlien(f, info)
		}
		a.siblingGone = true
	}
	if flag&os.O_CREATE != 0 { // for all users of the lock, as the queue is
		f, err = a.makeSibling()
	} else {
		f, err = platform.Open(a.sibling, flag)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = notAlien(f, info)
	}
	if err != nil {
		return nil, nil, joined(err, f.Close())
	}
	return f, f.Close, nil
}

// notAlien is decode's look whether a file is somebody's, without all the rest. It is for
// the holder, besides whom nobody writes a fence.
func notAlien(f *platform.File, info platform.Info) error {
	if info.Links > 1 && !info.Marked() {
		if m, err := readMemory(f); err != nil || m.alien {
			return pathError("use", f.Path(), cmp.Or(err, errAlien))
		}
	}
	if info.Size <= fenceOffset {
		return nil
	}
	_, ok, err := readFence(f)
	if err != nil {
		return err
	}
	if !ok || info.Size > siblingSize {
		return pathError("use", f.Path(), errAlien)
	}
	return nil
}

// noteOf returns the note of the holder with one of these claims, and when it was made.
func (m *memory) noteOf(claims ...*LockInfo) (text string, at time.Time) {
	for _, c := range claims {
		if c != nil && c.Nonce != "" && m.note != nil && m.note.Nonce == c.Nonce {
			return m.note.Note, m.note.At
		}
	}
	return "", time.Time{}
}

// recall reads, once, what the sibling remembers from before us. So it must come before our
// own first note, and any by a child of ours. The caller has h.mu.
func (h *FileHold) recall() error {
	if h.recalled {
		return nil
	}
	f, done, err := h.attempt.openMemory(os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errAlien) {
		h.recalled = true
		return nil
	} else if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	m, err := readMemory(f)
	if err = joined(err, done()); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	h.before, h.recalled = m, true
	return nil
}
