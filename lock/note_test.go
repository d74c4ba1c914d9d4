package lock_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestNote: whoever looks at a held lock, or is refused, sees the last note, and when it
// was made.
func TestNote(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), Cmd: "job"}
	held := tryHold(t, f)
	shows := func(want string) {
		t.Helper()
		s, err := f.Inspect(t.Context())
		if err != nil || s.Note != want || want == "" != s.NotedAt.IsZero() || time.Since(s.NotedAt) > time.Minute && want != "" {
			t.Errorf("Inspect: %q, %s, %v; want %q", s.Note, s.NotedAt, err, want)
		}
		_, err = f.TryAcquire(t.Context())
		if l := asLocked(t, err); l.Note != want || !l.NotedAt.Equal(s.NotedAt) || strings.Contains(err.Error(), ", at ") != (want != "") {
			t.Errorf("TryAcquire: %v, with %q, %s; want %q", err, l.Note, l.NotedAt, want)
		}
	}
	shows("")
	for _, note := range []string{"step 1", strings.Repeat("ü", 512), "<a&b>\u2028\x00\x1b\"\\", "s"} {
		check(t, held.Note(note))
		shows(note)
	}
	for _, long := range []string{strings.Repeat("x", 1025), strings.Repeat("\x01", 1024), strings.Repeat("\x01", 400)} {
		if err := held.Note(long); !errors.Is(err, lock.ErrInvalidName) {
			t.Errorf("%d bytes: %v; want ErrInvalidName", len(long), err)
		}
	}
	shows("s")
	letGo(t, held)
	if err := held.Note("late"); err == nil || !strings.Contains(err.Error(), "was released") {
		t.Errorf("after Release: %v", err)
	}
	held = tryHold(t, f)
	shows("")
	check(t, os.Remove(f.Path))
	wantErr(t, held.Note("late"), lock.ErrLost, "robbed")
	wantErr(t, held.Release(), lock.ErrLost)
	reader := must(sharing(f).TryAcquire(t.Context()))(t)
	defer letGo(t, reader)
	if reader.Info().Mode != "" {
		wantErr(t, reader.Note("x"), errors.ErrUnsupported, "a reader")
	}
}

// TestNote_Mixed: a note that is not whole, as the halves of two would be, is none.
func TestNote_Mixed(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	held := tryHold(t, f)
	check(t, held.Note("aaaa"))
	sibling := f.Path + ".flock"
	data := must(os.ReadFile(sibling))(t)
	at := bytes.Index(data, []byte("aaaa"))
	if at < 0 {
		t.Fatalf("no note in %q", data)
	}
	file, err := os.OpenFile(sibling, os.O_WRONLY, 0)
	check(t, err)
	_, err = file.WriteAt([]byte("bb"), int64(at))
	check(t, errors.Join(err, file.Close()))
	if s, err := f.Inspect(t.Context()); err != nil || s.State != evidence.Held || s.Note != "" || lock.NoteIn(f) != "" {
		t.Errorf("%+v, %v", s, err)
	}
	check(t, held.Note("cccc"))
	equal(t, lock.NoteIn(f), "cccc", "the next note")
	letGo(t, held)
}

// TestNote_Whole: others look at what one notes, all the time, and never see half of it.
func TestNote_Whole(t *testing.T) { // guards: S15
	const notes = 10_000
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	held := tryHold(t, f)
	defer letGo(t, held)
	over := make(chan struct{})
	var looking sync.WaitGroup
	seen := make([]map[string]bool, 3)
	for i := range seen {
		seen[i] = map[string]bool{}
		looking.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				note := lock.NoteIn(f)
				if i == 0 { // as whoever wants the lock
					_, err := f.TryAcquire(t.Context())
					var locked *lock.LockedError
					if !errors.As(err, &locked) {
						t.Error(err)
						return
					}
					note = locked.Note
				}
				seen[i][note] = true
			}
		})
	}
	for n := range notes {
		size := 1024 // of which any two mix well
		if n%2 == 0 {
			size = 1 + rand.IntN(size)
		}
		check(t, held.Note(strings.Repeat(string('a'+rune(n%26)), size)))
	}
	close(over)
	looking.Wait()
	equal(t, lock.NoteIn(f), strings.Repeat(string('a'+rune((notes-1)%26)), 1024), "in the end it")
	for i, notes := range seen {
		for note := range notes {
			that(t, note == "" || strings.Trim(note, note[:1]) == "", "looker %d saw %q", i, note)
		}
		t.Logf("looker %d saw %d notes", i, len(notes))
	}
}

// TestNote_Killed: whoever is killed in the midst of noting leaves one note or the other.
func TestNote_Killed(t *testing.T) { // guards: S15
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	for range 30 {
		noter := start(t, "noter", f.Path)
		noter.Expect("noting")
		time.Sleep(rand.N(3 * time.Millisecond)) // any instruction
		noter.Kill()
		p := predecessor(t, f)
		if p == nil || p.Info.PID != noter.Cmd.Process.Pid || p.How != lock.EndDied || p.Note == "" || strings.Trim(p.Note, p.Note[:1]) != "" {
			t.Fatalf("%+v", p)
		}
	}
}

func init() { roles["noter"] = noter }

// noter notes for ever.
func noter(path string, _ *bufio.Scanner) {
	held, err := lock.File{Path: path}.Acquire(context.Background())
	for n := 0; err == nil; n++ {
		err = held.Note(strings.Repeat(string('a'+rune(n%26)), 1+n*37%1024))
		if n == 0 {
			fmt.Println("noting")
		}
	}
	fmt.Println(err)
}

// TestNoteAbove: a process below writes the note of its holder, of the innermost or the one
// that it names, and of nobody who has it no more.
func TestNoteAbove(t *testing.T) { // guards: S15
	dir := t.TempDir()
	f, inner := lock.File{Path: filepath.Join(dir, "a.lock")}, lock.File{Path: filepath.Join(dir, "b.lock")}
	t.Setenv("HOLDFAST_HELD", "")
	wantErr(t, lock.NoteAbove("", "x"), lock.ErrInvalidName, "under no lock")
	held, innermost := tryHold(t, f), tryHold(t, inner)
	value := heldIn(t, innermost.Environ(held.Environ(nil)))
	check(t, lock.NoteAbove("", "inside"))
	t.Chdir(dir)
	check(t, lock.NoteAbove("a.lock", "outside"))
	for file, want := range map[string]string{f.Path: "outside", inner.Path: "inside"} {
		equal(t, must((lock.File{Path: file}).Inspect(t.Context()))(t).Note, want, file)
	}
	for path, text := range map[string]string{"c.lock": "x", "a.lock": strings.Repeat("x", 2000)} {
		wantErr(t, lock.NoteAbove(path, text), lock.ErrInvalidName, path)
	}
	letGo(t, innermost)
	late := func() {
		t.Helper()
		before := treeState(t, dir)
		wantErr(t, lock.NoteAbove("b.lock", "late"), lock.ErrLost)
		sameTree(t, before, treeState(t, dir))
	}
	late()
	check(t, lock.NoteAbove("", "outside again"))
	equal(t, inspect(t, f).Note, "outside again", "under what is still held")
	next := tryHold(t, inner)
	check(t, next.Note("next"))
	late()
	letGo(t, next)
	letGo(t, held)
	check(t, os.Remove(inner.Path+".flock"))
	late()

	t.Setenv("HOLDFAST_HELD", strings.ReplaceAll(value, dir, t.TempDir()+"/gone"))
	that(t, lock.NoteAbove("", "x") != nil, "noted in a folder that is not there")
	reader := must(sharing(f).TryAcquire(t.Context()))(t)
	defer letGo(t, reader)
	heldIn(t, reader.Environ(nil))
	if err := lock.NoteAbove("", "x"); reader.Info().Mode != "" && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("under a reader: %v; want ErrUnsupported", err)
	}
}

// Where lines lie in a sibling: the ends and the words of its two slots.
const (
	siblingSize               = 8192
	endAt, wordAt             = 64, 576
	secondEndAt, secondWordAt = 4096, 4608
)

// TestNote_TooLate: a note that arrives when its writer has the lock no more is nobody else's,
// and says nothing of who came after. Only the note of the holder after the next may go.
func TestNote_TooLate(t *testing.T) { // guards: S15
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	letGo(t, tryHold(t, f))
	held := tryHold(t, f)
	check(t, held.Note("old"))
	sibling := must(os.OpenFile(f.Path+".flock", os.O_RDWR, 0))(t)
	defer sibling.Close()
	old := make([]byte, siblingSize-secondWordAt)
	n, err := sibling.ReadAt(old, secondWordAt)
	if err != io.EOF {
		t.Fatal(n, err)
	}
	letGo(t, held)
	arrives := func() { t.Helper(); check(t, second(sibling.WriteAt(old[:n], secondWordAt))) }
	shows := func(want string) {
		t.Helper()
		equal(t, inspect(t, f).Note, want)
	}

	held = tryHold(t, f)
	check(t, held.Note("the next one's"))
	arrives()
	shows("the next one's")
	letGo(t, held)
	arrives()
	if p := predecessor(t, f); p == nil || p.Info.Nonce != held.Info().Nonce || p.How != lock.EndReleased || p.Note != "the next one's" {
		t.Errorf("%+v; want the next one", p)
	}
	held = tryHold(t, f)
	check(t, held.Note("of one after it"))
	arrives()
	check(t, held.Note("of one after it, again"))
	shows("of one after it, again")
	letGo(t, held)
}

// hostileAreas are contents of a sibling that are no lines of holders.
var hostileAreas = map[string]func() []byte{
	"random":   func() []byte { return randomBytes(siblingSize) },
	"ones":     func() []byte { return slices.Repeat([]byte{0xff}, siblingSize) },
	"lines":    func() []byte { return slices.Repeat([]byte{'\n'}, siblingSize) },
	"brackets": func() []byte { return line(strings.Repeat("[", 1900)) },
	"null":     func() []byte { return line("null") },
	"number":   func() []byte { return line("1e999") },
	"types":    func() []byte { return line(`{"turn":1,"holder":"x","note":{}}`) },
	"empty":    func() []byte { return line(`{}`) },
	"no pid":   func() []byte { return line(`{"turn":1,"holder":{"pid":-1,"created_at":"2026-01-02T03:04:05Z"}}`) },
	"no turn":  func() []byte { return line(`{"holder":{"pid":7,"created_at":"2026-01-02T03:04:05Z"},"note":"x"}`) },
	"turn 0":   func() []byte { return line(`{"turn":0,"holder":{"pid":7,"created_at":"2026-01-02T03:04:05Z"}}`) },
	"turn": func() []byte {
		return line(`{"turn":9223372036854775807,"holder":{"pid":7,"created_at":"2026-01-02T03:04:05Z"}}`)
	},
	"half":       func() []byte { return line(wholeWord)[:20] },
	"bad sum":    func() []byte { return append([]byte("00000000"), line(wholeWord)[8:]...) },
	"binary":     func() []byte { return append([]byte("\x80\x00\x00\x7f\xff\xff\xff\xff"), randomBytes(3000)...) },
	"short":      func() []byte { return []byte("x") },
	"no newline": func() []byte { return line(wholeWord)[:len(wholeWord)+9] },
}

const wholeWord = `{"turn":1,"holder":{"pid":7,"created_at":"2026-01-02T03:04:05Z"},"note":"x"}`

// line makes a line with its right checksum.
func line(object string) []byte {
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE([]byte(object)), object)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// TestMemory_Hostile: what is no line is ignored, in any place, and written over.
func TestMemory_Hostile(t *testing.T) { // guards: S15
	for name, content := range hostileAreas {
		for _, offset := range []int{endAt, wordAt, secondEndAt, secondWordAt} {
			f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
			text := append(make([]byte, offset), content()...)
			putSibling(t, f.Path, string(text[:min(len(text), siblingSize)]))
			if s, err := f.Inspect(t.Context()); err != nil || s.Last != nil {
				t.Errorf("%s at %d: %+v, %v", name, offset, s.Last, err)
			}
			held := tryHold(t, f)
			if p, err := held.Predecessor(); err != nil || p != nil {
				t.Errorf("%s at %d: %+v, %v", name, offset, p, err)
			}
			_, err := f.TryAcquire(t.Context())
			equal(t, asLocked(t, err).Note, "", name, "at", offset)
			check(t, held.Note("mine"))
			letGo(t, held)
			if p := predecessor(t, f); p == nil || p.Info.PID != os.Getpid() || p.Note != "mine" || p.How != lock.EndReleased {
				t.Errorf("%s at %d: %+v", name, offset, p)
			}
		}
	}
}
