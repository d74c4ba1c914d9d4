package command

import (
	"errors"
	"testing"
	"time"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		`plain "text" \ ünïcode`: `plain "text" \ ünïcode`,
		"a\nb\x1b[2Jc\x7f":       `a\nb\x1b[2Jc\x7f`,
		"\u202etxt\u0085":        `\u202etxt\u0085`,
		"bad \xff utf8":          `bad \xff utf8`,
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"lock: a\nb\x1b": `a; b\x1b`, "all failed:\n\ta\n\tb": "all failed: a; b"} {
		if got := oneLine(errors.New(in)); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		in, want string
		n        int
	}{
		{"short", "short", 5}, {"longer text", "longe…", 8}, {"ääää", "ää…", 7}, {"äääää", "ää…", 8},
	} {
		if got := shorten(c.in, c.n); got != c.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

// TestShellWord: a nonce or a path in a command that we propose may come from
// somebody who wants it pasted.
func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{
		"/a/b-c.lock":    "/a/b-c.lock",
		"":               "''",
		"a b":            "'a b'",
		"x; rm -rf ~":    "'x; rm -rf ~'",
		"it's $(reboot)": `'it'\''s $(reboot)'`,
	} {
		if got, ok := shellWord(in); !ok || got != want {
			t.Errorf("shellWord(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
	if got, ok := shellWord("a\nreboot\n"); ok {
		t.Errorf("a line break can't be pasted, got %q", got)
	}
}

func TestAgo(t *testing.T) {
	for in, want := range map[time.Duration]string{
		-time.Second:                     "in the future",
		1500 * time.Millisecond:          "1s",
		3*time.Minute + 2*time.Second:    "3m",
		90*time.Minute + 10*time.Second:  "1h30m",
		75*time.Hour + 59*time.Minute:    "3d3h",
		1000*24*time.Hour + 23*time.Hour: "1000d23h",
	} {
		if got := ago(in); got != want {
			t.Errorf("ago(%v) = %q, want %q", in, got, want)
		}
	}
}
