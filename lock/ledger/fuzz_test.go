package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock/ledger"
)

// told is all that reading and verifying a ledger say, in words, and whether that is damage.
func told(l ledger.Ledger) (events, problems string, damaged, wrong bool) {
	for e, err := range l.Events(0) {
		events += fmt.Sprintf("%d %q %v\n", e.Sequence, e.Data, err)
		damaged = damaged || err != nil && !errors.Is(err, ledger.ErrAlien)
	}
	for p, err := range l.Verify(nil) {
		problems += fmt.Sprintf("%+v %v\n", p, err)
		wrong = wrong || err != nil || !p.Harmless() && !strings.HasSuffix(p.Path, ".batch") && !strings.HasSuffix(p.Path, ".tmp")
	}
	return events, problems, damaged, wrong
}

// lying is what lies in the ledger's folder, but for what every writer may change.
func lying(t *testing.T, l ledger.Ledger) map[string]string {
	t.Helper()
	entries := must(os.ReadDir(at(l, "")))(t)
	all := map[string]string{}
	for _, e := range entries {
		if e.Name() == ".head" || strings.HasPrefix(e.Name(), "ledger.lock") {
			continue
		}
		data := must(os.ReadFile(at(l, e.Name())))(t)
		all[e.Name()] = string(data)
	}
	return all
}

// FuzzFolder: whatever two files lie in a ledger's folder, reading tells the same twice, and
// changes nothing; verifying finds what reading finds; and appending fails, with nothing
// changed, or appends behind all that is there. No event is ever changed or removed, and
// nothing else but what a dead writer has left.
func FuzzFolder(f *testing.F) {
	for _, one := range [][2]string{
		{"event-000002.json", "2"}, {"event-000002.json", "{"}, {"event-000003.json", "3"}, {"event-2.json", "2"}, {"event-000001.json", ""},
		{".batch", `{"id":"A","events":1}`}, {".batch", `{"id":"A","events":2}`}, {".batch", "{"}, {".batch", `{"id":"../x","events":1}`}, {".batch", `{"id":"A","events":1000000000}`},
		{".head", `{"sequence":7}`}, {".head", `{"sequence":9007199254740991}`}, {".head", "{"}, {".event-solo.tmp", "7"}, {".claims", "{"},
		{"1.json", "1"}, {"EVENT-000002.JSON", "2"}, {"other-000001.json", "1"}, {"event-9007199254740991.json", "9"}, {"event-9007199254740992.json", "9"},
	} {
		f.Add(one[0], one[1], ".event-A-000001.tmp", "{}")
		f.Add(one[0], one[1], "event-000002.json", "[]")
		f.Add(one[0], one[1], ".head", `{"sequence":2}`)
	}
	f.Fuzz(func(t *testing.T, name, contents, name2, contents2 string) {
		l := filled(t, 1)
		for _, file := range [][2]string{{name, contents}, {name2, contents2}} {
			if file[0] == "" || len(file[0]) > 200 || strings.ContainsAny(file[0], "/\x00") || file[0] == "." || file[0] == ".." ||
				strings.HasPrefix(file[0], "ledger.lock") || len(file[1]) > 1000 {
				return
			}
			write(t, l, file[0], file[1])
		}
		before := lying(t, l)
		head, _ := os.ReadFile(at(l, ".head"))
		events, problems, damaged, wrong := told(l)
		if e, p, _, _ := told(l); e != events || p != problems {
			t.Errorf("told\n%s%s, and then\n%s%s", events, problems, e, p)
		}
		that(t, damaged == wrong, "reading tells\n%s, verifying\n%s", events, problems)
		if after, _ := os.ReadFile(at(l, ".head")); !bytes.Equal(after, head) {
			t.Errorf("reading changed the hint to %q", after)
		}
		same(t, before, lying(t, l), func(string) bool { return false })

		last, err := l.Append(background, []byte(`"new"`))
		after := lying(t, l)
		if err != nil {
			that(t, errors.Is(err, ledger.ErrDamaged) || errors.Is(err, ledger.ErrPrefix), "appending: %v", err)
			same(t, before, after, func(name string) bool { return strings.HasPrefix(name, ".event-") && strings.HasSuffix(name, ".tmp") })
			return
		}
		equal(t, after[fmt.Sprintf("event-%06d.json", last)], `"new"`, "appended as", last, "which")
		// With a hint, nobody looks beyond a gap; what comes into it replaces nothing.
		if n, err := l.Sequence(); (err != nil || n != last) && !strings.Contains(events, "missing") {
			t.Errorf("appended as %d; the last is said to be %d, %v", last, n, err)
		}
		published := slices.Collect(maps.Values(after))
		var b struct {
			ID     string `json:"id"`
			Events int    `json:"events"`
		}
		_ = json.Unmarshal([]byte(before[".batch"]), &b)
		for name, text := range before {
			if b.Events > 0 && name == fmt.Sprintf(".event-%s-%06d.tmp", b.ID, b.Events) && !slices.Contains(published, text) {
				t.Errorf("%s was decided, and is gone", name)
			}
		}
		same(t, before, after, func(name string) bool {
			return name == ".batch" || strings.HasPrefix(name, ".event-") && strings.HasSuffix(name, ".tmp")
		})
	})
}

// same fails the test if a file has been changed or removed that may not be.
func same(t *testing.T, before, after map[string]string, may func(name string) bool) {
	t.Helper()
	for name, text := range before {
		if now, ok := after[name]; (!ok || now != text) && !may(name) {
			t.Errorf("%s had %q, and now %q (%t)", name, text, now, ok)
		}
	}
}

// FuzzAppend: events, one a line, are there as they were given, all of them; or, if one of
// them is none, none is, and nothing is written.
func FuzzAppend(f *testing.F) {
	for _, lines := range []string{"1", "1\n2", "{}\n", "{}\n[]\n\"\\u0000\"\nnull", "{", "1\n{", "", "\n", "1e999", "\xff", "\"\xff\"", " 1 ", "1 2", "\ufeff1"} {
		f.Add([]byte(lines))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events := bytes.Split(data, []byte("\n"))
		if len(events) > 20 {
			return
		}
		valid := true
		for _, e := range events {
			valid = valid && json.Valid(e)
		}
		l := fresh(t)
		last, err := l.AppendBatch(background, events)
		if !valid {
			if entries, rerr := os.ReadDir(l.Dir); !errors.Is(err, ledger.ErrInvalidEvent) || rerr != nil || len(entries) > 0 {
				t.Errorf("%q: %v, and there is %v, %v", data, err, entries, rerr)
			}
			return
		}
		if err != nil || last != int64(len(events)) {
			t.Fatalf("%q: %d, %v", data, last, err)
		}
		var want []string
		for _, e := range events {
			want = append(want, string(e))
		}
		holds(t, l, want...)
		if got := len(strings.Fields(files(t, l))); got != len(events) {
			t.Errorf("%q: left %s", data, files(t, l))
		}
	})
}
