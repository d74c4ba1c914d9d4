package lock_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock"
)

// TestNoteAbove_SparesData: a file named like a sibling may be somebody's.
func TestNoteAbove_SparesData(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), "a.lock")}
	held := tryHold(t, f)
	defer letGo(t, held)
	heldIn(t, held.Environ(nil))
	content := []byte("XYsomebody's data, and a good deal of it\n")
	putFile(t, f.Path+".flock", content, time.Time{})
	if err := lock.NoteAbove("", "step 1"); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("noted in somebody's data: %v", err)
	}
	if got := getFile(t, f.Path+".flock"); !bytes.Equal(got, content) {
		t.Errorf("the file has now %q", got)
	}
}

// TestNoteAbove_OfOneWhoVanished: a child's note tells of its holder as the holder's own does,
// if the lock file is removed by hand and nobody tells of the holder's end.
func TestNoteAbove_OfOneWhoVanished(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), "a.lock")}
	letGo(t, tryHold(t, f)) // whose end is remembered
	held := tryHold(t, f)
	heldIn(t, held.Environ(nil))
	check(t, lock.NoteAbove("", "step 1"))
	check(t, os.Remove(f.Path))
	if err := held.Release(); !errors.Is(err, lock.ErrLost) {
		t.Fatal(err)
	}
	if p := predecessor(t, f); p == nil || p.How != lock.EndUnknown || p.Info.Nonce != held.Info().Nonce || p.Note != "step 1" {
		t.Errorf("%+v; want who noted, and vanished", p)
	}
}

// TestPredecessor_NoteAfterTheEnd: whoever's end is remembered has not vanished, however late a
// note of theirs was written.
func TestPredecessor_NoteAfterTheEnd(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	holder := lock.LockInfo{PID: 4242, CreatedAt: at, Nonce: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
	end := lock.EncodeEnd(holder, at)
	note, err := lock.EncodeNote(holder.Nonce, holder.PID, "last words", at, string(end[:8]))
	check(t, err)
	data := make([]byte, lock.SiblingSize)
	copy(data[lock.NoteOffset:], note)
	copy(data[lock.LastOffset:], end)
	if _, p := lock.Remembered(data[2:]); p == nil || p.How != lock.EndReleased || p.Note != "last words" {
		t.Errorf("%+v; want one who released, with the note", p)
	}
}

// TestPredecessor_SaidReleased: a claim that says so is that of one who released, though it was
// taken over as a dead one's.
func TestPredecessor_SaidReleased(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), "a.lock")}
	putFile(t, f.Path, []byte(`{"pid":2147483647,"created_at":"2026-01-02T03:04:05Z","holdfast":1,"released":true ,"nonce":"ABCDEFGHIJKLMNOPQRSTUVWXYZ"}`+"\n"), time.Time{})
	if p := predecessor(t, f); p == nil || p.How != lock.EndReleased || p.Evidence != lock.EvidenceSaysReleased {
		t.Errorf("%+v; want one who released", p)
	}
}

// TestMemory_Fits: whatever a claim is, it is made to fit, and that comes to an end.
func TestMemory_Fits(t *testing.T) {
	odd := lock.Fitting(lock.LockInfo{PID: 1, CreatedAt: time.Unix(0, 0), Cmd: "x" + strings.Repeat("é", 4000)})
	if !utf8.ValidString(odd.Cmd) || !strings.HasSuffix(odd.Cmd, "é…") {
		t.Errorf("the command is cut to %q", odd.Cmd)
	}
	for _, year := range []int{-5, 10_000} {
		if c := lock.Fitting(lock.LockInfo{PID: 1, CreatedAt: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), Cmd: "job"}); c.PID != 1 || c.Cmd != "job" || !c.CreatedAt.Equal(time.Unix(0, 0)) {
			t.Errorf("of the year %d: %+v", year, c)
		}
	}
}
