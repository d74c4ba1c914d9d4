package lock

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// oddTexts are names and spaces that a path can't have as they are.
var oddTexts = []string{
	"a", "A", "a.b", ".", "..", "...", ".a", "a.", "a..b", "-", "_", "%", "%%", "%41", "%4", "a%", "%2F", "%2f",
	"/", "a/b", "../../etc/passwd", "/etc", `a\b`, "a b", " ", "a\x00b", "\x00", "\n", "\x7f", "\xff", "é", "e\u0301", "🔒",
	"NUL", "con", "COM1.txt", "a:b", "C:", "a*", "a?", `"`, "a.lock", "a.flock", "a.lock.flock", "a.reclaim", ".reclaim",
	"a.reclaim.b", "a.reclaimed", strings.Repeat("a", 60), strings.Repeat("é", 30), strings.Repeat("%", 69),
}

// harmless is what every filesystem takes for one name, and no shell for more.
var harmless = regexp.MustCompile(`^[A-Za-z0-9_%-]([A-Za-z0-9_.%-]*[A-Za-z0-9_%-])?$`)

func FuzzEscape(f *testing.F) { // guards: H3
	for _, s := range oddTexts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := escape(s)
		if back := unescape(e); back != s {
			t.Errorf("%q is written as %q, which is %q", s, e, back)
		}
		if s != "" && !harmless.MatchString(e) || strings.Contains(e, markerSuffix) {
			t.Errorf("%q is written as %q", s, e)
		}
		if s != "" && !filepath.IsLocal(e) {
			t.Errorf("%q is written as %q, which is not a file's name here", s, e)
		}
	})
}

// FuzzDir_Key: a path is that of one key, or of none; and a key that can be had has one
// path, from which it is known again.
func FuzzDir_Key(f *testing.F) { // guards: H3
	for _, s := range oddTexts {
		f.Add(s, "name")
		f.Add("space", s)
		f.Add(s, s)
	}
	d := Dir{Path: filepath.Join(f.TempDir(), "locks")}
	f.Fuzz(func(t *testing.T, space, name string) {
		key := Key{Space: space, Name: name}
		if at, err := d.At(key); err == nil {
			if back, ok := d.key(at.Path); !ok || back != key {
				t.Errorf("%q is at %s, which is %q (%v)", key, at.Path, back, ok)
			}
			if filepath.Dir(filepath.Dir(at.Path)) != d.Path {
				t.Errorf("%q is at %s", key, at.Path)
			}
		} else if !errors.Is(err, ErrInvalidName) {
			t.Errorf("%q: %v", key, err)
		}
		// As names of files, too.
		path := d.Path + "/" + space + "/" + name
		if key, ok := d.key(path); ok {
			if at, err := d.At(key); err != nil || at.Path != filepath.Clean(path) {
				t.Errorf("%q is said to be %q, which is at %s (%v)", path, key, at.Path, err)
			}
		} else if key != (Key{}) {
			t.Errorf("%q is no key's, and yet %q", path, key)
		}
	})
}

// TestDir_At: every name of up to 60 bytes can be had, whatever is in it.
func TestDir_At(t *testing.T) {
	d := Dir{Path: "locks", File: File{Cmd: "mine"}}
	seen := map[string]Key{}
	for _, space := range oddTexts {
		for _, name := range oddTexts {
			key := Key{Space: space, Name: name}
			at, err := d.At(key)
			if err != nil {
				t.Errorf("%q: %v", key, err)
			}
			if at.Cmd != "mine" {
				t.Errorf("%q: the settings are lost: %+v", key, at)
			}
			if other, is := seen[at.Path]; is {
				t.Errorf("%q and %q are both at %s", key, other, at.Path)
			}
			seen[at.Path] = key
		}
	}
	for space, want := range map[string]string{"a": "a", "..": "%2E%2E", "a/b": "a%2Fb", "a.b.": "a.b%2E", "é": "%C3%A9"} {
		if at, _ := d.At(Key{space, "x.y"}); at.Path != filepath.Join("locks", want, "x.y.lock") {
			t.Errorf("space %q is at %s", space, at.Path)
		}
	}
	for what, key := range map[string]Key{
		"nothing": {}, "no space": {Name: "a"}, "no name": {Space: "a"},
		"long name": {"a", strings.Repeat("a", maxBase)}, "long space": {strings.Repeat("%", 255/3), "a"},
	} {
		if _, err := d.At(key); !errors.Is(err, ErrInvalidName) {
			t.Errorf("%s: %v, want ErrInvalidName", what, err)
		}
	}
	if _, err := (Dir{}).At(Key{"a", "a"}); !errors.Is(err, ErrInvalidName) {
		t.Errorf("no folder: %v, want ErrInvalidName", err)
	}
}
