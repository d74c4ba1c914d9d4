package testkit

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// notes is a test that notes what is said.
type notes struct {
	testing.TB
	said string
}

func (n *notes) Helper()                      {}
func (n *notes) Errorf(f string, args ...any) { n.said += fmt.Sprintf(f, args...) + "\n" }
func (n *notes) Fatalf(f string, args ...any) { n.Errorf("fatal: "+f, args...) }

// TestWant: each says something when it is not as wanted, and only then.
func TestWant(t *testing.T) {
	over := make(chan struct{})
	close(over)
	wrapped := fmt.Errorf("read: %w", io.EOF)
	for want, f := range map[string]func(t testing.TB){
		"":                                   allAsWanted,
		"fatal: round 2: EOF\n":              func(t testing.TB) { Check(t, io.EOF, "round", 2) },
		"fatal: EOF\n":                       func(t testing.TB) { Must(1, io.EOF)(t) },
		"the end: EOF\n":                     func(t testing.TB) { NoErr(t, ErrOf(1, io.EOF), "the end") },
		"error is <nil>, want EOF\n":         func(t testing.TB) { WantErr(t, nil, io.EOF) },
		"it: error is EOF, want read: EOF\n": func(t testing.TB) { WantErr(t, io.EOF, wrapped, "it") },
		"a b: got \"x\", want \"\"\n":        func(t testing.TB) { Equal(t, "x", "", "a", "b") },
		"got 1, want 2\n":                    func(t testing.TB) { Equal(t, 1, 2) },
		"got read: EOF, want EOF\n":          func(t testing.TB) { Equal(t, wrapped, io.EOF) },
		"got \"abc\", want \"d\" in it\n":    func(t testing.TB) { Contains(t, "abc", "d") },
		"7 is odd\n":                         func(t testing.TB) { That(t, false, "%d is odd", 7) },
		"over already\n":                     func(t testing.TB) { NotYet(t, over, "over already") },
	} {
		n := &notes{TB: t}
		f(n)
		Equal(t, n.said, want)
	}
}

func allAsWanted(t testing.TB) {
	Check(t, nil)
	NoErr(t, nil, "it")
	WantErr(t, errors.Join(io.ErrUnexpectedEOF, io.EOF), io.EOF)
	Equal(t, Must("x", nil)(t), "x")
	Equal(t, ErrOf(1, io.EOF), io.EOF)
	Contains(t, "abc", "b")
	That(t, true, "never")
	NotYet(t, make(chan struct{}), "never")
}
