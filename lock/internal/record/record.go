// Package record answers one question: what does the sibling remember? The fence, and a record
// of each of the last two exclusive holders that left word: at which step the work was, and how
// it ended.
package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// Behind the lock bytes and the fence there are two slots, one a page. A slot has two lines: a
// holder's word, which the holder and its children write, and behind it in time, but before it
// in the file, its end, which the holder or its reclaimer writes. A line is a checksum in 8
// hexadecimal digits, a blank, a JSON object, and a newline. What follows is left of a longer
// one, and means nothing.
//
// A holder writes into the slot that has its record already, or else into the slot that has
// not the last one. So what its predecessor left stays until the holder after it. The turns of
// the two records say which is the last.
//
// A line belongs to the holder that it names, wherever it lies, and an end to the word beside
// it only if both name the same. So a child that writes late, when another has the lock, may
// make a word disappear, but can't put one into another's mouth. A record without an end is of
// a holder that has the lock, or has vanished: somebody removed its lock file, and neither the
// holder nor a reclaimer told of its end.
//
// Nobody sees half a line:
//
//   - One system call writes it, within one page of the file. The kernel copies it there
//     without looking for signals, so a kill leaves the old line or the new one.
//   - One system call reads the file, too. It may come in the middle of that copy, as local
//     filesystems don't keep the two apart. So the checksum has the last word. If it is not
//     that of the object, the reader looks again; a copy takes less than a microsecond. What
//     stays wrong (a loss of power, another program) is no line.
//   - Two that write at the same time do so one after the other (the inode's lock).
const (
	// Size is the size that a sibling never exceeds: two of the smallest pages.
	Size = 2 * page
	page = 4096

	endRoom   = 512
	wordRoom  = page - firstSlot - endRoom
	firstSlot = 64
	slotRoom  = endRoom + wordRoom

	// maxTurn is the turn before 1: turns go round.
	maxTurn = 1_000_000
)

func slotAt(i int) int64 { return [2]int64{firstSlot, page}[i] }

// ErrAlien is the error of a file that is not a sibling, but another's, and not ours to change.
var ErrAlien = errors.New("the file holds something else than a fence; if nobody needs that: " + BeginAnew)

// An Ending is how a holder ended, when, and how that is known. The zero value says nothing.
type Ending struct {
	How      string            `json:"how"`
	Ended    time.Time         `json:"ended,omitzero"`
	Evidence evidence.Evidence `json:"evidence,omitempty"`
}

// A Record is what is remembered of one holder.
type Record struct {
	Holder  evidence.Claim `json:"holder"`
	Note    string         `json:"note,omitempty"`
	NotedAt time.Time      `json:"noted_at,omitzero"`
	Ending  `json:"-"`
}

// fail adds the file to an error that is not the system's.
func fail(f *platform.File, err error) error {
	return &fs.PathError{Op: "use", Path: f.Path(), Err: err}
}

// A Memory is what a sibling remembers. The zero value remembers nothing, nor does an alien's.
type Memory struct {
	Fence int64 // 0 without any
	// Alien says that the file is another's: see ErrAlien.
	Alien bool
	slots [2]slot
	torn  bool // a line is not whole
	size  int  // of the file
}

// slot is one slot, as far as it is whole.
type slot struct {
	turn int64  // of word; 0 without one
	word []byte // the JSON object; nil without one
	end  []byte
}

// tries is how often a file is read of which a line seems to be half written, and pause the
// time between.
const (
	tries = 4
	pause = 500 * time.Microsecond
)

// Read reads a sibling.
func Read(f *platform.File) (Memory, error) {
	info, err := f.Stat()
	if err != nil {
		return Memory{}, err
	}
	return read(f, info, new(buffer))
}

// A buffer has room for one byte more than a sibling may have. Processes that leave a lock
// use theirs again.
type buffer [Size + 1]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// read is Read for a caller that knows the file's mark and links.
func read(f *platform.File, info platform.Info, data *buffer) (m Memory, err error) {
	clear(data[:fenceOffset])
	first := int64(fenceOffset) // on Windows the lock bytes can't be read
	if platform.OwnLocks {
		first = 0
	}
	for try := 1; ; try++ {
		n, err := f.ReadAt(data[first:], first)
		if err != nil {
			return Memory{}, err
		}
		whole, pure := m.decode(data[:first+int64(n)])
		if !whole && try < tries {
			time.Sleep(pause)
			continue
		}
		m.torn, m.size = !whole, int(first)+n
		if info.Marked() {
			return m, nil
		}
		// Only a holder has reason to write what a holder writes. An empty file may become a
		// sibling, unless it has a further name: then somebody has linked it here. Without any, it was
		// removed under its holder. Where no file bears a mark, a file that a loss of power has
		// spoilt may become one, too.
		pure = pure && m.IsWritten() || info.Links <= 1 && (n == 0 || !platform.KeepsMarks)
		unlike := !pure || !isEmpty(data[:fenceOffset])
		if m.Alien || unlike {
			m = Memory{Alien: true}
		}
		return m, nil
	}
}

// decode reads a sibling. It reports whether all lines are whole, or absent, and whether there
// is nothing else behind the lock bytes.
func (m *Memory) decode(data []byte) (whole, pure bool) {
	area := func(from, size int) []byte { return data[min(from, len(data)):min(from+size, len(data))] }
	*m = Memory{}
	fence, ok := parseFence(area(fenceOffset, fenceDigits+1))
	long := len(data) > Size
	if m.Alien = !ok || long; m.Alien {
		return long, false // what is no fence may be half of one
	}
	m.Fence, whole = fence, true
	for i := range m.slots {
		s, at := &m.slots[i], int(slotAt(i))
		end, word := area(at, endRoom), area(at+endRoom, wordRoom)
		s.end, s.word = object(end), object(word)
		if s.turn = turnOf(s.word); s.turn == 0 {
			s.word = nil
		}
		whole = whole && (s.end != nil || isEmpty(end)) && (s.word != nil || isEmpty(word))
	}
	const behindFence = fenceOffset + fenceDigits + 1
	last := int(slotAt(1)) + slotRoom
	return whole, whole && isEmpty(area(behindFence, firstSlot-behindFence)) && isEmpty(area(last, Size-last))
}

func isEmpty(area []byte) bool { return len(bytes.Trim(area, "\x00")) == 0 }

// object returns the object of the line at the beginning of an area; nil if there is none that
// is whole.
func object(area []byte) []byte {
	line, _, ended := bytes.Cut(area, []byte{'\n'})
	if !ended || len(line) < 10 {
		return nil
	}
	if sum := checksum(line[9:]); !bytes.Equal(line[:8], sum[:]) {
		return nil
	}
	return line[9:]
}

func checksum(object []byte) (digits [8]byte) {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(object))
	hex.Encode(digits[:], sum[:])
	return digits
}

// newLine begins a line behind what is in b; endLine ends the one that begins at from.
func newLine(b []byte) []byte { return append(b, "12345678 "...) }

func endLine(b []byte, from int) []byte {
	sum := checksum(b[from+9:])
	copy(b[from:], sum[:])
	return append(b, '\n')
}

// A word begins with its turn, and then, as an end does, with the name of its holder. So a holder
// who leaves finds both without package json, whose caches are cold just then; see
// evidence.Claim.Encode.
const (
	turnField = `{"turn":`
	ofField   = `"of":"`
)

// turnOf returns the turn of a word; 0 if it has none that a holder writes.
func turnOf(word []byte) int64 {
	rest, is := bytes.CutPrefix(word, []byte(turnField))
	digits, _, more := bytes.Cut(rest, []byte{','})
	turn, err := strconv.ParseInt(string(digits), 10, 64)
	if !is || !more || err != nil || turn < 1 || turn > maxTurn {
		return 0
	}
	return turn
}

// IsWritten reports whether a holder has written into the sibling, and it is still there.
func (m *Memory) IsWritten() bool {
	return m.Fence > 0 || m.record(0) != nil || m.record(1) != nil
}

// record decodes a slot; nil if it has no record.
func (m *Memory) record(i int) *Record {
	s, r := &m.slots[i], new(Record)
	if s.word == nil || json.Unmarshal(s.word, r) != nil || r.Holder.Check() != nil {
		return nil
	}
	r.Ending = s.ending()
	return r
}

// ending is the end of the holder whose word it is, if the slot tells of it.
func (s *slot) ending() Ending {
	var e struct {
		Of string `json:"of"`
		Ending
	}
	if s.end == nil || json.Unmarshal(s.end, &e) != nil || e.Of == "" || e.Of != s.of() {
		return Ending{}
	}
	return e.Ending
}

// nameOf names one holding, in few bytes that JSON leaves as they are: by the nonce of a claim
// of ours; another program's may be any text, and that of several holdings.
func nameOf(c *evidence.Claim) string {
	const ours = 26
	if len(c.Nonce) == ours && strings.Trim(c.Nonce, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "" {
		return c.Nonce
	}
	h := fnv.New128a()
	fmt.Fprintf(h, "%d %d %s", c.PID, c.CreatedAt.UnixNano(), c.Nonce)
	return hex.EncodeToString(h.Sum(nil))
}

// find returns the slot with the record of a holder, or -1.
func (m *Memory) find(c *evidence.Claim) int {
	name := nameOf(c)
	for i := range m.slots {
		if m.slots[i].of() == name {
			return i
		}
	}
	return -1
}

// of is the holder whose word it is; "" without one.
func (s *slot) of() string { return nameIn(s.word, ofField) }

// nameIn returns the text behind a field's name in a line that begins with it, or with the turn
// and then it. Names have no characters that JSON escapes.
func nameIn(object []byte, field string) string {
	_, rest, _ := bytes.Cut(object, []byte(field))
	name, _, ended := bytes.Cut(rest, []byte{'"'})
	if !ended {
		return ""
	}
	return string(name)
}

// Of returns the record of a holder; nil if there is none.
func (m *Memory) Of(c *evidence.Claim) *Record {
	if i := m.find(c); i >= 0 {
		return m.record(i)
	}
	return nil
}

// Last returns the record of the last holder; nil if there is none. but is a holder that does
// not count, nil for none.
func (m *Memory) Last(but *evidence.Claim) *Record {
	i := m.last()
	if but != nil && i == m.find(but) {
		i = 1 - i
	}
	if i < 0 || i > 1 {
		return nil
	}
	return m.record(i)
}

// last is the slot with the last record; -1 without any.
func (m *Memory) last() int {
	switch a, b := m.slots[0].turn, m.slots[1].turn; {
	case a == 0 && b == 0:
		return -1
	case b == 0, a != 0 && a == nextTurn(b):
		return 0
	case a == 0, b == nextTurn(a):
		return 1
	case a > b: // somebody else has written there
		return 0
	default:
		return 1
	}
}

func nextTurn(turn int64) int64 { return turn%maxTurn + 1 }
