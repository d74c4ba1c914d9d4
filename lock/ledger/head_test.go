package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/ledger"
)

// hints are what .head can hold. Whatever it is, it is believed by nobody.
var hints = map[string]string{
	"right":     `{"sequence":6}`,
	"low":       `{"sequence":1}`,
	"none":      `{"sequence":0}`,
	"high":      `{"sequence":7}`,
	"far":       `{"sequence":9223372036854775807}`,
	"beyond":    `{"sequence":9223372036854775808}`,
	"negative":  `{"sequence":-1}`,
	"fraction":  `{"sequence":2.5}`,
	"text":      `{"sequence":"6"}`,
	"no object": `6`,
	"null":      `null`,
	"empty":     ``,
	"half":      `{"sequence":`,
	"torn":      `{"sequence":6}` + `99}`,
	"NULs":      strings.Repeat("\x00", 96),
	"large":     `{"sequence":6,"x":"` + strings.Repeat("x", 2000) + `"}`,
	"larger":    strings.Repeat(" ", 1<<20),
	"future":    `{"sequence":6,"swept_at":"2999-01-01T00:00:00Z"}`,
	"no time":   `{"sequence":6,"swept_at":"yesterday"}`,
}

// TestAppend_Hint: a hint that is wrong, or is none, makes no difference to what is
// appended and read; and the next one is right.
func TestAppend_Hint(t *testing.T) {
	for name, hint := range hints {
		t.Run(name, func(t *testing.T) {
			l := filled(t, 6)
			write(t, l, ".head", hint)
			holds(t, l, "1", "2", "3", "4", "5", "6")
			appends(t, l, "7", 7)
			data, err := os.ReadFile(at(l, ".head"))
			if err != nil || !strings.HasPrefix(string(data), `{"sequence":7,`) || len(data) != 96 {
				t.Errorf("the next hint: %q, %v", data, err)
			}
			holds(t, l, "1", "2", "3", "4", "5", "6", "7")
		})
	}
}

// TestAppend_OthersSince: other programs have appended, few or many, since the hint
// was left.
func TestAppend_OthersSince(t *testing.T) {
	for others := range 40 {
		l := filled(t, 2)
		for i := range others {
			write(t, l, fmt.Sprintf("event-%06d.json", 3+i), "1")
		}
		if n, err := l.Sequence(); n != int64(2+others) || err != nil {
			t.Errorf("%d appended: at %d, %v", others, n, err)
		}
		appends(t, l, "1", int64(3+others))
	}
}

var sweptAt = regexp.MustCompile(`"swept_at":"[^"]*"`)

// TestHead_Golden: what is written is what was written by earlier versions.
func TestHead_Golden(t *testing.T) { // guards: O1
	before := time.Now().Truncate(time.Second)
	l := filled(t, 3)
	after := time.Now()
	got := must(os.ReadFile(at(l, ".head")))(t)
	at := sweptAt.FindString(string(got))
	var when string
	check(t, errOf(fmt.Sscanf(at, `"swept_at":%q`, &when)), got)
	if swept, err := time.Parse("2006-01-02T15:04:05Z", when); err != nil || swept.Before(before) || swept.After(after) {
		t.Errorf("swept at %s, %v", when, err)
	}
	equal(t, sweptAt.ReplaceAllString(string(got), `"swept_at":"2026-01-02T03:04:05Z"`), golden(t, "head"))
}

// TestHead_GoldenRead: an earlier version's hint is used, and a later one's, with
// further fields. It is seen by a gap that only a look at the whole folder finds.
func TestHead_GoldenRead(t *testing.T) {
	for _, name := range []string{"head", "head-later"} {
		l := filled(t, 3)
		remove(t, l, "event-000001.json")
		write(t, l, ".head", golden(t, name))
		appends(t, l, "4", 4)
		if data, err := os.ReadFile(at(l, ".head")); err != nil || len(data) != 96 {
			t.Errorf("%q, %v", data, err)
		}
	}
}

func golden(t *testing.T, name string) string {
	t.Helper()
	data := must(os.ReadFile("testdata/" + name))(t)
	return string(data)
}

// TestEvents_WhileAppending: readers who run beside a writer see whole events, in
// order, and no gap that is not there, with and without a hint.
func TestEvents_WhileAppending(t *testing.T) {
	l := fresh(t)
	done := make(chan struct{})
	errs := make(chan error, 3)
	for reader := range 3 {
		go func() { errs <- follow(l, int64(reader), done) }()
	}
	for n := int64(0); n < 900; n += 3 {
		check(t, errOf(l.AppendBatch(background, numbered(n, 3))))
		if n%90 == 0 {
			os.Remove(at(l, ".head"))
		}
	}
	close(done)
	for range 3 {
		noErr(t, <-errs)
	}
}

// follow reads: reader 0 all of it again and again, another what has come since.
func follow(l ledger.Ledger, reader int64, done chan struct{}) error {
	last := int64(0)
	for over := false; !over; {
		select {
		case <-done:
			over = true // once more, to the end
		default:
		}
		sequence, err := l.Sequence()
		if err != nil {
			return err
		}
		if reader == 0 {
			last = 0
		}
		for event, err := range l.Events(last) {
			if err != nil {
				return err
			}
			if last++; event.Sequence != last || string(event.Data) != fmt.Sprint(last) {
				return fmt.Errorf("event %d is %d: %q", last, event.Sequence, event.Data)
			}
		}
		if last < sequence {
			return fmt.Errorf("%d events were there, and %d are read", sequence, last)
		}
	}
	if last != 900 {
		return fmt.Errorf("%d events were read", last)
	}
	return nil
}

// TestHead_NotAHint: a file that is no hint, or has another name, keeps its contents under that,
// and a new one takes its place.
func TestHead_NotAHint(t *testing.T) {
	whole := golden(t, "head")
	for name, text := range map[string]string{
		"another object": `{"password":"secret","sequence":0}`, "null": "null", "nothing": "", "a text": "text",
		"a hint of 96 bytes": whole, "with a further field": golden(t, "head-later"),
	} {
		l := filled(t, 2)
		other := filepath.Join(t.TempDir(), "other")
		check(t, errors.Join(os.WriteFile(other, []byte(text), 0o600), os.Remove(at(l, ".head")), os.Link(other, at(l, ".head"))))
		appends(t, l, "3", 3)
		got := must(os.ReadFile(other))(t)
		equal(t, string(got), text, name)
		if hint, err := os.ReadFile(at(l, ".head")); err != nil || len(hint) != len(whole) {
			t.Errorf("%s: the hint is %q, %v", name, hint, err)
		}
	}
}
