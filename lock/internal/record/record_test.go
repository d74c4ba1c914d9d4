package record_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/record"
	"github.com/holdfast-go/holdfast/platform"
)

var (
	check = testkit.Check
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

var at = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

// holder is one of many.
func holder(n int) evidence.Claim {
	return evidence.Claim{PID: 4242 + n, CreatedAt: at, Cmd: "push", Nonce: fmt.Sprintf("%026d", n), Hostname: "builder", KernelLock: "ext4:64768:131090"}
}

// sibling is a new one, empty and marked.
func sibling(t *testing.T) *platform.File {
	t.Helper()
	f, made, err := platform.OpenToLock(filepath.Join(t.TempDir(), "sibling"), true, 0)
	check(t, err)
	if !made {
		t.Fatal("it was there")
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func tell(t *testing.T, f *platform.File, c evidence.Claim, e record.Ending) {
	t.Helper()
	info := must(f.Stat())(t)
	check(t, record.Tell(f, info, c, nil, e))
}

func read(t *testing.T, f *platform.File) record.Memory {
	t.Helper()
	return must(record.Read(f))(t)
}

var released = record.Ending{How: "released", Ended: at.Add(time.Minute)}

// TestTwoSlots: what a holder's predecessor left stays while the holder writes, and goes with
// the next one's word.
func TestTwoSlots(t *testing.T) { // guards: S16
	f := sibling(t)
	for n := range 5 {
		c := holder(n)
		m := read(t, f)
		if r := m.Last(nil); n > 0 && (r == nil || r.Holder.PID != c.PID-1 || r.Ending != released || r.Note != fmt.Sprint("again ", n-1)) {
			t.Errorf("before %d: %+v", n, r)
		}
		check(t, record.Note(f, c, fmt.Sprint("note ", n), at))
		check(t, record.Note(f, c, fmt.Sprint("again ", n), at))
		m = read(t, f)
		if r := m.Last(&c); n > 0 && (r == nil || r.Holder.PID != c.PID-1 || r.Ending != released) {
			t.Errorf("before %d, which has noted: %+v", n, r)
		}
		if r := m.Of(&c); r == nil || r.Note != fmt.Sprint("again ", n) || r.How != "" {
			t.Errorf("of %d: %+v", n, r)
		}
		tell(t, f, c, released)
	}
}

// TestTell_Once: the first that tells of an end is believed: the holder, and not its reclaimer.
func TestTell_Once(t *testing.T) { // guards: S16
	for _, c := range []evidence.Claim{holder(1), {PID: 7, CreatedAt: at}} {
		f := sibling(t)
		tell(t, f, c, released)
		tell(t, f, c, record.Ending{How: "died", Evidence: evidence.KernelLockFree})
		m := read(t, f)
		if r := m.Last(nil); r == nil || r.Ending != released || m.Of(&c) == nil {
			t.Errorf("%+v", r)
		}
	}
}

// TestNote_AfterTheEnd: however late a child's note is written, what was told of its holder's
// end stands; and it is the end of no other.
func TestNote_AfterTheEnd(t *testing.T) { // guards: S15
	for _, noted := range []bool{true, false} {
		f := sibling(t)
		tell(t, f, holder(0), released)
		data := must(os.ReadFile(f.Path()))(t)
		if noted {
			check(t, record.Note(f, holder(1), "first", at))
			data = must(os.ReadFile(f.Path()))(t)
		}
		// The child has read the file by now, and looks at no more of it.
		late := sibling(t)
		check(t, os.WriteFile(late.Path(), data, 0o600))
		check(t, record.Note(late, holder(1), "last words", at))
		word := make([]byte, 3520)
		n := must(late.ReadAt(word, 4608))(t)

		tell(t, f, holder(1), released)
		check(t, f.WriteAt(word[:n], 4608))
		m := read(t, f)
		if r := m.Last(nil); r == nil || r.Holder.PID != holder(1).PID || r.Ending != released || r.Note != "last words" {
			t.Errorf("noted before: %v: %+v", noted, r)
		}
		check(t, record.Note(f, holder(2), "next", at))
		check(t, record.Note(f, holder(2), "next", at))
		tell(t, f, holder(2), released)
		check(t, record.Note(f, holder(3), "after the next", at))
		check(t, f.WriteAt(word[:n], 4608))
		m = read(t, f)
		if r := m.Last(nil); r == nil || r.Holder.PID != holder(2).PID || r.Ending != released {
			t.Errorf("noted before: %v: %+v; want the next one, which has ended", noted, r)
		}
		if c := holder(3); m.Of(&c) != nil {
			t.Errorf("%+v; want it gone until it notes again", m.Of(&c))
		}
	}
}

// TestNote_NamesAnother: a note that looks like another's claim is still its writer's.
func TestNote_NamesAnother(t *testing.T) {
	f := sibling(t)
	check(t, record.Note(f, holder(1), `"nonce":"`+holder(2).Nonce+`"`, at))
	m := read(t, f)
	if c := holder(2); m.Of(&c) != nil {
		t.Errorf("%+v", m.Of(&c))
	}
}

// TestGolden: what is written into a sibling stays what it is.
func TestGolden(t *testing.T) {
	f := sibling(t)
	c := holder(0)
	c.Nonce = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	tell(t, f, c, released)
	c = evidence.Claim{PID: 4243, CreatedAt: at, Nonce: "BCDEFGHIJKLMNOPQRSTUVWXYZA", Hostname: "builder"}
	check(t, record.Note(f, c, "step 3 of 7: make", at.Add(2*time.Minute)))
	tell(t, f, c, record.Ending{How: "died", Evidence: evidence.KernelLockFree})
	data := must(os.ReadFile(f.Path()))(t)
	for name, offset := range map[string]int{"end.json": 64, "word.json": 576, "end_dead.json": 4096, "word_note.json": 4608} {
		want := must(os.ReadFile(filepath.Join("testdata", name)))(t)
		got, _, _ := strings.Cut(string(data[offset:]), "\n")
		object := strings.TrimSpace(string(want))
		equal(t, got, fmt.Sprintf("%08x %s", crc32.ChecksumIEEE([]byte(object)), object), name)
	}
	if len(data) > record.Size {
		t.Errorf("it has %d bytes", len(data))
	}
}

// TestTooLong: a note, a claim and a reason of any size find room, or are refused, or left out.
func TestTooLong(t *testing.T) {
	f := sibling(t)
	c := holder(0)
	c.Cmd, c.Dir = strings.Repeat("größe\x01<", 900), strings.Repeat("d", 4000)
	c.Nonce = strings.Repeat("N", 26)
	check(t, record.Note(f, c, strings.Repeat("\x01", 320), at))
	check(t, record.Note(f, c, strings.Repeat("ü", 512), at))
	for _, long := range []string{strings.Repeat("x", record.MaxNote+1), strings.Repeat("\x01", 400)} {
		if err := record.Note(f, c, long, at); !errors.Is(err, record.ErrTooLong) {
			t.Errorf("%d bytes: %v; want ErrTooLong", len(long), err)
		}
	}
	tell(t, f, c, record.Ending{How: "died", Evidence: evidence.Evidence(strings.Repeat("w", 1000))})
	m := read(t, f)
	if r := m.Of(&c); r == nil || r.How != "died" || r.Evidence != "" || r.Note != strings.Repeat("ü", 512) || r.Holder.PID != c.PID {
		t.Errorf("%+v", r)
	}
	odd, _ := record.Fit(evidence.Claim{PID: 1, CreatedAt: time.Unix(0, 0), Cmd: "x" + strings.Repeat("é", 4000)})
	if !utf8.ValidString(odd.Cmd) || !strings.HasSuffix(odd.Cmd, "é…") {
		t.Errorf("the command is cut to %q", odd.Cmd)
	}
	for _, year := range []int{-5, 10_000} {
		if c, _ := record.Fit(evidence.Claim{PID: 1, CreatedAt: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), Cmd: "job"}); c.PID != 1 || c.Cmd != "job" || !c.CreatedAt.Equal(time.Unix(0, 0)) {
			t.Errorf("of the year %d: %+v", year, c)
		}
	}
}

// TestRaise_Cut: a fence that is not whole is none, in a marked file too, and stays as it is.
func TestRaise_Cut(t *testing.T) {
	for _, fence := range []string{"00000000000000000123", "0000000000000000012x\n", "-0000000000000000123\n", "123\n"} {
		f := sibling(t)
		check(t, f.WriteAt([]byte(fence), 2))
		if n, err := record.Raise(f, at); !errors.Is(err, record.ErrAlien) {
			t.Errorf("%q: %d, %v; want ErrAlien", fence, n, err)
		}
		if data, err := os.ReadFile(f.Path()); err != nil || string(data) != "\x00\x00"+fence {
			t.Errorf("%q is now %q, %v", fence, data, err)
		}
	}
}

// FuzzMemory: whatever lies in a sibling, reading it comes to an end, and what it tells is of a
// holder that can be.
func FuzzMemory(f *testing.F) { // guards: S15
	word := `{"turn":1,"holder":{"pid":7,"created_at":"2026-01-02T03:04:05Z"},"note":"x"}`
	end := `{"of":"7@1767323045000000000","how":"released"}`
	for _, object := range []string{word, end, "null", "1e999", "{}", strings.Repeat("[", 1900), `{"turn":1,"holder":"x"}`} {
		for _, offset := range []int{64, 576, 4096, 4608} {
			f.Add(append(make([]byte, offset), fmt.Sprintf("%08x %s\n", crc32.ChecksumIEEE([]byte(object)), object)...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := record.Decode(data)
		r := m.Last(nil)
		if r != nil && (r.Holder.PID == 0 || len(r.Note) > record.Size) {
			t.Errorf("%+v", r)
		}
		// A file that is as long as it can be says the same.
		if n := record.Size - len(data); n >= 0 {
			long := record.Decode(append(slices.Clone(data), make([]byte, n)...))
			if again := long.Last(nil); !reflect.DeepEqual(r, again) {
				t.Errorf("%+v, and with NULs behind it %+v", r, again)
			}
		}
	})
}

// line makes a line with its right checksum.
func line(object string) []byte {
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE([]byte(object)), object)
}

// TestTell_OddNonces: another program's nonce may be of any size, of any characters, and that of
// several holdings.
func TestTell_OddNonces(t *testing.T) {
	died := record.Ending{How: "died", Evidence: evidence.KernelLockFree}
	for _, nonce := range []string{strings.Repeat("n", 600), strings.Repeat("\x01", 64), `a"b`, "<&>", "session"} {
		f := sibling(t)
		tell(t, f, holder(1), released)
		for n := range 3 {
			c := evidence.Claim{PID: 7 + n, CreatedAt: at, Nonce: nonce}
			tell(t, f, c, died)
			tell(t, f, c, released) // too late
			m := read(t, f)
			if r := m.Last(nil); r == nil || r.Holder.PID != c.PID || r.Ending != died || m.Of(&c) == nil {
				t.Errorf("%.20q: %+v", nonce, r)
			}
		}
	}
}

// TestTell_AfterAll: what a reclaimer has told of a holder that turns out to live gives way to
// the holder's own word.
func TestTell_AfterAll(t *testing.T) {
	f, c := sibling(t), holder(1)
	tell(t, f, c, record.Ending{How: "taken for dead", Evidence: evidence.Aged})
	_, claim := record.Fit(c)
	info := must(f.Stat())(t)
	check(t, record.Tell(f, info, c, claim, released))
	m := read(t, f)
	if r := m.Last(nil); r == nil || r.Ending != released {
		t.Errorf("%+v", r)
	}
}

// TestTurnsGoRound: whatever turns are planted, the next holder's record is the last.
func TestTurnsGoRound(t *testing.T) {
	for _, turn := range []int64{1, 999_999, 1_000_000, 1_000_001, 1 << 62} {
		for _, at := range []int64{576, 4608} {
			f := sibling(t)
			check(t, f.WriteAt(line(fmt.Sprintf(`{"turn":%d,"of":"x","holder":{"pid":7,"created_at":"2026-01-02T03:04:05Z"}}`, turn)), at))
			for n := range 4 {
				tell(t, f, holder(n), released)
				m := read(t, f)
				if r := m.Last(nil); r == nil || r.Holder.PID != holder(n).PID {
					t.Errorf("turn %d at %d, after %d: %+v", turn, at, n, r)
				}
			}
		}
	}
}

// TestTellIfNews: what is not whole, or of nobody, is written over, and nothing hostile stops a
// holder that leaves.
func TestTellIfNews(t *testing.T) {
	for _, end := range []string{`{"how":"released"}`, `{"of":"","how":"released"}`, `{"of":"x","how":"died"}`, `{"of":"y","how":"released"}`, "garbage"} {
		f := sibling(t)
		check(t, f.WriteAt(line(`{"turn":1,"of":"x","holder":{"pid":7,"created_at":"2026-01-02T03:04:05Z"}}`), 576))
		data := line(end)
		if end == "garbage" {
			data = []byte(end)
		}
		check(t, f.WriteAt(data, 64))
		info := must(f.Stat())(t)
		check(t, record.TellIfNews(f, info, holder(1), nil, released))
		m := read(t, f)
		if r := m.Last(nil); r == nil || r.Holder.PID != holder(1).PID || r.Ending != released {
			t.Errorf("%s: %+v", end, r)
		}
		before := must(os.ReadFile(f.Path()))(t)
		tell(t, f, holder(2), released)
		check(t, record.TellIfNews(f, info, holder(3), nil, released)) // no news
		m = read(t, f)
		if r := m.Last(nil); r == nil || r.Holder.PID != holder(2).PID {
			t.Errorf("%s: %+v of %d bytes", end, r, len(before))
		}
	}
}
