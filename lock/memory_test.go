package lock_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/record"
	"github.com/holdfast-go/holdfast/platform"
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

// TestPredecessor_SaidReleased: a claim that says so is that of one who released, though it was
// taken over as a dead one's.
func TestPredecessor_SaidReleased(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), "a.lock")}
	putFile(t, f.Path, []byte(`{"pid":2147483647,"created_at":"2026-01-02T03:04:05Z","holdfast":1,"released":true ,"nonce":"ABCDEFGHIJKLMNOPQRSTUVWXYZ"}`+"\n"), time.Time{})
	if p := predecessor(t, f); p == nil || p.How != lock.EndReleased || p.Evidence != evidence.SaysReleased {
		t.Errorf("%+v; want one who released", p)
	}
}

// TestPredecessor_OddNonce: the lock of another program's dead holder is taken over, whatever
// its nonce is, and each death is told once.
func TestPredecessor_OddNonce(t *testing.T) {
	for _, nonce := range []string{strings.Repeat("n", 600), "session"} {
		f := lock.File{Path: filepath.Join(t.TempDir(), "a.lock")}
		for n := range 2 {
			pid := 2147483640 + n
			putFile(t, f.Path, fmt.Appendf(nil, `{"pid":%d,"created_at":"2026-01-02T03:04:05Z","nonce":%q}`, pid, nonce), time.Time{})
			held := tryHold(t, f)
			if p, err := held.Predecessor(); err != nil || p == nil || p.Info.PID != pid || p.How != lock.EndDied {
				t.Errorf("%.10s: %+v, %v; want pid %d", nonce, p, err, pid)
			}
			check(t, held.ReleaseUnused())
		}
	}
}

// TestNoteAbove_Late: a child's note that comes after a holder's silent release takes nothing
// from the holders after it.
func TestNoteAbove_Late(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), "a.lock")}
	held := tryHold(t, f)
	held.Environ(nil)
	claim := held.Info()
	letGo(t, held)
	next := tryHold(t, f)
	check(t, next.Note("the next one's"))
	sibling := must(platform.Open(f.Path+".flock", os.O_RDWR))(t)
	defer sibling.Close()
	check(t, record.Note(sibling, claim, "late", time.Now())) // as NoteAbove does, when it has looked
	if s, err := f.Inspect(t.Context()); err != nil || s.Note != "the next one's" {
		t.Errorf("%+v, %v", s, err)
	}
	if p, err := next.Predecessor(); err != nil || p == nil || p.Info.Nonce != claim.Nonce || p.How != lock.EndReleased {
		t.Errorf("%+v, %v; want the one that released", p, err)
	}
	letGo(t, next)
}
