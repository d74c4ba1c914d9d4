package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// TestLedger_Prefix: the names of the files begin as they are to.
func TestLedger_Prefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"":                       "event-000001.json event-000002.json event-000003.json",
		ledger.DefaultPrefix:     "event-000001.json event-000002.json event-000003.json",
		ledger.NoPrefix:          "000001.json 000002.json 000003.json",
		"x":                      "x000001.json x000002.json x000003.json",
		"e0":                     "e0000001.json e0000002.json e0000003.json",
		"7":                      "7000001.json 7000002.json 7000003.json",
		"ünï code ":              "ünï code 000001.json ünï code 000002.json ünï code 000003.json",
		strings.Repeat("x", 100): "",
	} {
		l := fresh(t)
		l.Prefix = prefix
		appends(t, l, "1", 1)
		if n, err := l.AppendBatch(background, numbered(1, 2)); n != 3 || err != nil {
			t.Errorf("prefix %q: %d, %v", prefix, n, err)
		}
		if got := files(t, l); want != "" && got != want {
			t.Errorf("prefix %q: the folder holds %s, want %s", prefix, got, want)
		}
		remove(t, l, ".head")
		holds(t, l, "1", "2", "3")
	}
}

// TestLedger_SecondPrefix: a folder has one ledger. Another prefix would fork it, and what
// is there be each other's damage.
func TestLedger_SecondPrefix(t *testing.T) {
	l := fresh(t)
	l.Prefix = ledger.NoPrefix
	appends(t, l, "1", 1)
	for _, hint := range []bool{true, false} {
		other := ledger.Ledger{Dir: l.Dir}
		if !hint {
			remove(t, l, ".head")
		}
		_, err := other.Append(background, []byte("2"))
		complains(t, err, ledger.ErrPrefix)
		_, err = other.AppendIfSequence(background, []byte("2"), 0)
		complains(t, err, ledger.ErrPrefix)
		_, err = other.Sequence()
		complains(t, err, ledger.ErrPrefix)
		for _, after := range []int64{0, 1, 5} {
			n := 0
			for _, err := range other.Events(after) {
				complains(t, err, ledger.ErrPrefix)
				n++
			}
			that(t, n == 1, "hint %v, after %d: %d events or errors, want one error", hint, after, n)
		}
		holds(t, l, "1")
		if hint {
			appends(t, l, "2", 2)
			remove(t, l, "000002.json")
		}
	}
}

// TestPrefixOf: the names say it, whatever digits they have.
func TestPrefixOf(t *testing.T) {
	for _, c := range []struct {
		files, want string
		several     bool
	}{
		{"", "", false},
		{"notes.json 00001.json x.json.bak README .head ledger.lock", "", false},
		{"event-000001.json", ledger.DefaultPrefix, false},
		{"event-000002.json", ledger.DefaultPrefix, false}, // the first one is missing
		{"000001.json 1000001.json", ledger.NoPrefix, false},
		{"000002.json 1000000.json", ledger.NoPrefix, false},
		{"x000001.json x1000001.json", "x", false},
		{"7000001.json 7000002.json", "7", false},
		{"x000009.json", "x", false},
		{"event-000001.json 000001.json", "", true},
		{"x000001.json event-000007.json", "", true},
		{"x000001.json y000001.json", "", true},
	} {
		l := fresh(t)
		check(t, os.Mkdir(filepath.Join(l.Dir, "ledger"), 0o700))
		for name := range strings.FieldsSeq(c.files) {
			check(t, os.WriteFile(filepath.Join(l.Dir, "ledger", name), []byte("1"), 0o600))
		}
		got, err := ledger.PrefixOf(l.Dir)
		if got != c.want || errors.Is(err, ledger.ErrPrefix) != c.several || err != nil && !c.several {
			t.Errorf("%s: %q, %v; want %q", c.files, got, err, c.want)
		}
	}
	if got, err := ledger.PrefixOf(filepath.Join(t.TempDir(), "absent")); got != "" || err != nil {
		t.Errorf("without a folder: %q, %v", got, err)
	}
	_, err := ledger.PrefixOf("")
	complains(t, err, lock.ErrInvalidName)
}

// TestLedger_BadPrefix: one that can't begin a file's name is refused before
// anything is touched, by all that there is to call.
func TestLedger_BadPrefix(t *testing.T) {
	for _, prefix := range []string{"a/", "/a", "//", "../", "a/../b", `a\`, ".", ".x", "..", "a\x00", "a\n", "\x1b[31m",
		"a\u0085", "a\x7f", "\xff\xfe", "a\xc3", strings.Repeat("x", 101)} {
		l := fresh(t)
		l.Prefix = prefix
		_, err := l.Append(background, []byte("1"))
		complains(t, err, lock.ErrInvalidName)
		_, err = l.Read(1)
		complains(t, err, lock.ErrInvalidName)
		_, err = l.Sequence()
		complains(t, err, lock.ErrInvalidName)
		for _, err := range l.Events(0) {
			complains(t, err, lock.ErrInvalidName)
		}
		if entries, err := os.ReadDir(l.Dir); err != nil || len(entries) > 0 {
			t.Errorf("prefix %q: %v in the folder, %v", prefix, entries, err)
		}
	}
	_, err := ledger.Ledger{}.Append(background, []byte("1"))
	complains(t, err, lock.ErrInvalidName)
}

// FuzzEvents_Names: any file in the ledger's folder is an event, or is named as none
// of the ledger's, or is one of those that have a meaning; and appending goes on.
func FuzzEvents_Names(f *testing.F) {
	for _, name := range []string{"event-000002.json", "event-2.json", "event-0000002.json", "event-000003.json", "event-+00002.json",
		"event-18446744073709551618.json", ".event-x.tmp", ".head", ".batch", "ledger.lock.flock", "event-00000２.json"} {
		f.Add(name, "1")
		f.Add(name, `{"sequence":7}`)
		f.Add(name, `{"id":"A","events":1000000000}`)
	}
	f.Fuzz(func(t *testing.T, name, contents string) {
		if name == "" || len(name) > 200 || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." ||
			strings.HasPrefix(name, "ledger.lock") || len(contents) > 1000 {
			return
		}
		l := filled(t, 1)
		write(t, l, name, contents)
		named := ""
		seen := 0
		for event, err := range l.Events(0) {
			if seen++; seen > 3 {
				break // behind a gap
			}
			if err != nil {
				named += err.Error() + "\n"
			} else if event.Sequence == 1 && string(event.Data) != "1" && name != "event-000001.json" {
				t.Errorf("event %d is %q", event.Sequence, event.Data)
			}
		}
		switch {
		case strings.HasPrefix(name, "."), name == "event-000001.json", name == "event-000002.json":
		case !strings.Contains(named, name) && !strings.Contains(named, "missing"):
			t.Errorf("%q is not named: %s", name, named)
		}
		if name == ".batch" || strings.Contains(named, "missing") {
			return // an error by rights
		}
		want := int64(2)
		if name == "event-000002.json" {
			want = 3
		}
		appends(t, l, "2", want)
	})
}
