package ledger_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/lock/ledger"
)

// TestBatch_Damaged: a decision that can't be understood stops appending at once,
// however much it asks for, and keeps all that it may be about. Who removes it can
// append.
func TestBatch_Damaged(t *testing.T) {
	decision := func(contents string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(contents), 0o600) }
	}
	damages := map[string]func(path string) error{
		"no id":    decision(`{"events":3}`),
		"none":     decision(`{"id":"A","events":0}`),
		"negative": decision(`{"id":"A","events":-3}`),
		"fraction": decision(`{"id":"A","events":1.5}`),
		"path":     decision(`{"id":"../../x","events":1}`),
		"NUL":      decision(`{"id":"a\u0000","events":1}`),
		"null":     decision(`null`),
	}
	for name, make := range intruders {
		if name != "missing" {
			damages[name] = make
		}
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			l := filled(t, 2)
			write(t, l, ".event-A-000001.tmp", "3")
			check(t, damage(at(l, ".batch")))
			before := files(t, l)
			os.Remove(at(l, ".head"))
			_, err := l.Append(background, []byte("3"))
			complains(t, err, ledger.ErrDamaged, at(l, ".batch"))
			if got := files(t, l); got != before {
				t.Errorf("changed: %s, before: %s", got, before)
			}
			holds(t, l, "1", "2") // reading is no matter of it
			remove(t, l, ".batch")
			appends(t, l, "3", 3)
		})
	}
}

// TestBatch_Enormous: a decision on more events than anybody has written is done at
// once.
func TestBatch_Enormous(t *testing.T) {
	l := filled(t, 2)
	write(t, l, ".batch", `{"id":"A","events":1000000000000}`)
	appends(t, l, "3", 3)
	holds(t, l, "1", "2", "3")
	if got := files(t, l); strings.Contains(got, "batch") {
		t.Errorf("left behind: %s", got)
	}
}

// TestAppend_NoHint: where the hint should be lies something else. It stays, what it
// leads to is not touched, and nobody waits for it.
func TestAppend_NoHint(t *testing.T) {
	for name, intrude := range map[string]func(path string) error{
		"symlink": func(path string) error {
			return errors.Join(os.WriteFile(path+"-target", []byte(`{"sequence":1}`), 0o600), os.Symlink(path+"-target", path))
		},
		"dangling": intruders["dangling"],
		"folder":   intruders["folder"],
		"FIFO":     intruders["FIFO"],
		"socket": func(path string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			return errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Close(fd))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := filled(t, 2)
			remove(t, l, ".head")
			check(t, intrude(at(l, ".head")))
			before, err := os.Lstat(at(l, ".head"))
			check(t, err)
			appends(t, l, "3", 3)
			holds(t, l, "1", "2", "3")
			if after, err := os.Lstat(at(l, ".head")); err != nil || !os.SameFile(before, after) {
				t.Errorf("%v, %v", after, err)
			}
			if data, err := os.ReadFile(at(l, ".head-target")); err == nil && string(data) != `{"sequence":1}` {
				t.Errorf("what the link leads to holds %s", data)
			}
			remove(t, l, "event-000002.json")
			_, err = l.Append(background, []byte("4"))
			complains(t, err, ledger.ErrDamaged, at(l, "event-000002.json"))
		})
	}
}

// TestAppend_HintIsAnothers: somebody's file that was put in the place of the hint is not
// written to.
func TestAppend_HintIsAnothers(t *testing.T) {
	for name, private := range map[string]string{"short": "secret", "long": strings.Repeat("secret", 100)} {
		t.Run(name, func(t *testing.T) {
			l := filled(t, 2)
			remove(t, l, ".head")
			write(t, l, "private", private)
			check(t, os.Link(at(l, "private"), at(l, ".head")))
			appends(t, l, "3", 3)
			equal(t, string(must(os.ReadFile(at(l, "private")))(t)), private, "the file holds")
			if got, err := os.ReadFile(at(l, ".head")); err != nil || !strings.HasPrefix(string(got), `{"sequence":3`) {
				t.Errorf("the hint is %.99q, %v", got, err)
			}
		})
	}
}
