//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestChange: a change is made in the one declaration that it names, whatever its indent, and
// undone; it is refused where its lines are missing, or there twice.
func TestChange(t *testing.T) {
	const src = `package p

import "os"

func a() { }

func (r *room[T]) b() {
	for {
		_ = os.Args // for no reason
		c()
		c()
	}
}
`
	for _, c := range []struct{ name, change, want, fails string }{
		{"goes", "in p room.b\n-_ = os.Args\n+d()\n c()", strings.Replace(strings.Replace(src, "_ = os.Args // for no reason", "d()", 1), `"os"`, "", 1), ""},
		{"twice", "in p room.b\n-c()", "", "there twice"},
		{"missing", "in p a\n-c()", "", "are not there"},
		{"no such", "in p b\n-c()", "", "has no b"},
		{"nothing", "in p a\n c()", "", "nothing changes"},
		{"nowhere", "-c()", "", "what is"},
		{"empty", "", "", "does not say"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := t.TempDir()
			path := filepath.Join(tree, "p", "p.go")
			testkit.Check(t, os.Mkdir(filepath.Dir(path), 0o755))
			testkit.Check(t, os.WriteFile(path, []byte(src), 0o644))
			changes, err := readChanges(c.change)
			undo := func() error { return nil }
			if err == nil {
				undo, err = changes[0].apply(tree)
			}
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v; want one that says %q", err, c.fails)
				}
				return
			}
			testkit.Check(t, err)
			if got, _ := os.ReadFile(path); strings.Join(strings.Fields(string(got)), " ") != strings.Join(strings.Fields(c.want), " ") {
				t.Errorf("%s; want %s", got, c.want)
			}
			testkit.Check(t, undo())
			if got, _ := os.ReadFile(path); string(got) != src {
				t.Errorf("undone, it is %s", got)
			}
		})
	}
}
