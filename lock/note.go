package lock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// maxNote is the size of a note. A control character, or what is not UTF-8, takes six bytes
// on disk, so of these there may be some 300.
const maxNote = 1 << 10

// Note says what this holder is doing: at which step it is. Inspect, ErrLocked and the
// command show it, and so does Predecessor to the next holder, however this one ends. Each
// note replaces the one before. It takes microseconds, and nobody ever sees half of it. The
// last one stays in the sibling when the lock is released.
//
// The text is of at most 1 KiB. A longer one, or one with hundreds of control characters, is
// ErrInvalidName. After Release or a loss (ErrLost) nothing is noted. A shared lock has no
// note (errors.ErrUnsupported). After any error the note is the one before.
func (h *FileHold) Note(text string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.attempt
	if a.mode == platform.Shared {
		return pathError("note", a.file.Path, fmt.Errorf("readers have none: %w", errors.ErrUnsupported))
	}
	if err := h.stillHolds("note"); err != nil {
		return err
	}
	if err := h.recall(); err != nil {
		return err
	}
	record, err := encodeNote(noteRecord{
		Nonce: h.own.claim.Nonce, PID: h.own.claim.PID, Note: text, At: a.now().UTC(), After: h.before.lastSum,
	})
	if err != nil {
		return err
	}
	f, done, err := a.openMemory(os.O_RDWR | os.O_CREATE)
	if err == nil {
		err = joined(f.WriteAt(record, noteOffset), done())
	}
	if err != nil {
		return fmt.Errorf("lock: note: %w", err)
	}
	return nil
}

func encodeNote(n noteRecord) ([]byte, error) {
	if len(n.Note) > maxNote {
		return nil, fmt.Errorf("%w: the note has %d bytes; at most %d", ErrInvalidName, len(n.Note), maxNote)
	}
	var object bytes.Buffer
	e := json.NewEncoder(&object)
	e.SetEscapeHTML(false)
	if err := e.Encode(n); err != nil {
		return nil, fmt.Errorf("lock: note: %w", err)
	}
	record := encodeRecord(bytes.TrimSuffix(object.Bytes(), []byte{'\n'}))
	if len(record) > lastOffset-noteOffset {
		return nil, fmt.Errorf("%w: the note takes %d bytes on disk, as it has many control characters; at most %d",
			ErrInvalidName, len(record), lastOffset-noteOffset)
	}
	return record, nil
}

// NoteAbove is FileHold.Note for a process that works under the lock of one above it, of
// which HOLDFAST_HELD tells (see FileHold.Environ): the lock at path, or, if path is empty,
// the innermost that is still held.
//
// The error matches ErrLost if that lock is no longer held as it was when this process was
// started, and ErrInvalidName if there is no such lock above, or the text is too long. A
// readers' lock has no note (errors.ErrUnsupported).
//
// If the lock passes to another holder during the call, their note may be gone until they
// note again. It is never taken for another's: this note stays this holder's.
func NoteAbove(path, text string) error {
	above, err := findAbove(path)
	if err != nil {
		return err
	}
	p, err := File{Path: above.Path}.locate()
	if err != nil {
		return err
	}
	if err := p.isStill(above); err != nil { // before a sibling is made for nobody
		return err
	}
	p.file = p.file.orAsThere()
	f, err := p.makeSibling()
	if err != nil {
		return fmt.Errorf("lock: note: %w", err)
	}
	defer f.Close()
	var m memory
	if _, err = f.Stat(); err == nil {
		m, err = readMemory(f)
	}
	if err == nil && m.alien {
		err = errAlien
	}
	if err != nil {
		return pathError("note", p.sibling, err)
	}
	record, err := encodeNote(noteRecord{Nonce: above.Nonce, PID: above.PID, Note: text, At: time.Now().UTC(), After: m.lastSum})
	if err != nil {
		return err
	}
	// Now, so that After is of no later time than the hold.
	if err := p.isStill(above); err != nil {
		return err
	}
	if err := f.WriteAt(record, noteOffset); err != nil {
		return fmt.Errorf("lock: note: %w", err)
	}
	return nil
}

// addNote adds the note of the holder, if there is one. It opens the sibling if that is nil.
func (p *place) addNote(locked *ErrLocked, sibling *platform.File) {
	if sibling == nil {
		var err error
		if sibling, err = platform.Open(p.sibling, os.O_RDONLY); err != nil {
			return
		}
		defer sibling.Close()
	}
	locked.Note, locked.NotedAt = readNote(sibling, cmp.Or(locked.Info, locked.Gone))
}

// readNote is memory.noteOf for whoever looks again and again, and mostly finds no note.
func readNote(sibling *platform.File, c *LockInfo) (text string, at time.Time) {
	if c == nil || c.Nonce == "" || c.Mode == modeShared {
		return "", time.Time{}
	}
	var buf [lastOffset - noteOffset]byte
	for range memoryTries {
		n, err := sibling.ReadAt(buf[:], noteOffset)
		area := buf[:max(0, n)]
		if err != nil || !bytes.Contains(area, []byte(c.Nonce)) {
			break
		}
		var m memory
		if m.note = decodeNote(area); m.note != nil {
			return m.noteOf(c)
		}
		time.Sleep(passage)
	}
	return "", time.Time{}
}

// findAbove finds a lock among those of the processes above.
func findAbove(path string) (held, error) {
	all := parseHeld(os.Getenv(heldVar))
	if path == "" {
		if len(all) == 0 {
			return held{}, fmt.Errorf("%w: this process was not started under a lock: %s names none", ErrInvalidName, heldVar)
		}
		// A session may have ended since, with a lock around it that is still held.
		for _, above := range slices.Backward(all) {
			if p, err := (File{Path: above.Path}).locate(); err == nil && !errors.Is(p.isStill(above), ErrLost) {
				return above, nil
			}
		}
		return all[len(all)-1], nil
	}
	at, err := absolute(path)
	if err != nil {
		return held{}, pathError("resolve", path, err)
	}
	for _, above := range slices.Backward(all) {
		if above.Path == at {
			return above, nil
		}
	}
	return held{}, fmt.Errorf("%w: this process was not started under %s: %s does not name it", ErrInvalidName, path, heldVar)
}

// isStill returns nil if the lock file is still that of a holder above.
func (p *place) isStill(above held) error {
	f, err := p.look(p.file.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return pathError("note", p.file.Path, ErrLost)
	} else if err != nil {
		return pathError("note", p.file.Path, err)
	}
	defer f.close()
	switch {
	case f.claim == nil, f.claim.Nonce == "", f.claim.Nonce != above.Nonce:
		return pathError("note", p.file.Path, ErrLost)
	case f.isShared():
		return pathError("note", p.file.Path, fmt.Errorf("readers have none: %w", errors.ErrUnsupported))
	}
	return nil
}
