package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/lock/ledger"
)

// intruders are what can lie where an event should, and how it is made.
var intruders = map[string]func(path string) error{
	"empty":    func(path string) error { return os.WriteFile(path, nil, 0o600) },
	"half":     func(path string) error { return os.WriteFile(path, []byte(`{"type":"x","no`), 0o600) },
	"NULs":     func(path string) error { return os.WriteFile(path, make([]byte, 100), 0o600) },
	"too big":  func(path string) error { return os.WriteFile(path, []byte(strings.Repeat(" ", 1<<20)+"1"), 0o600) },
	"huge":     func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
	"symlink":  func(path string) error { return os.Symlink("event-000001.json", path) },
	"dangling": func(path string) error { return os.Symlink("nowhere", path) },
	"loop":     func(path string) error { return os.Symlink(path, path) },
	"folder":   func(path string) error { return os.Mkdir(path, 0o700) },
	"FIFO":     func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"missing":  func(path string) error { return nil },
}

// TestEvents_Damaged: whatever is wrong with an event, the error names its file, the
// others are read, and appending goes on behind it.
func TestEvents_Damaged(t *testing.T) {
	for name, intrude := range intruders {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int64{1, 3, 6} {
				if name == "missing" && n == 6 {
					continue // one event less is no damage
				}
				l := filled(t, 6)
				victim := fmt.Sprintf("event-%06d.json", n)
				remove(t, l, victim)
				check(t, intrude(at(l, victim)))
				appends(t, l, "7", 7)
				for _, after := range []int64{0, n - 1} {
					next := after
					for event, err := range l.Events(after) {
						if next++; event.Sequence != next {
							t.Fatalf("event %d, want %d", event.Sequence, next)
						}
						if next == n {
							complains(t, err, ledger.ErrDamaged, at(l, victim))
						} else if err != nil || string(event.Data) != fmt.Sprint(next) {
							t.Errorf("event %d: %s, %v", next, event.Data, err)
						}
					}
					equal(t, next, 7, "behind", after, "it ends at")
				}
				if name != "missing" {
					_, err := l.Read(n)
					complains(t, err, ledger.ErrDamaged, at(l, victim))
				}
			}
		})
	}
}

// TestAppend_Gap: where the whole folder must be looked at, a gap stops appending.
func TestAppend_Gap(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		l := filled(t, 6)
		victim := fmt.Sprintf("event-%06d.json", n)
		remove(t, l, victim)
		remove(t, l, ".head")
		_, err := l.Append(background, []byte("7"))
		complains(t, err, ledger.ErrDamaged, at(l, victim), "event 6 exists")
		_, err = l.Sequence()
		complains(t, err, ledger.ErrDamaged, at(l, victim))
		if got := files(t, l); strings.Contains(got, "000007") || strings.Contains(got, "tmp") {
			t.Errorf("written: %s", got)
		}
	}
}

// TestEvents_Aliens: a file that is none of the ledger's is named, and left alone;
// those that belong there are not.
func TestEvents_Aliens(t *testing.T) {
	l := filled(t, 2)
	like := []string{"event-3.json", "event-0000003.json", "event-000000.json", "event--00001.json", "event-+00003.json",
		"event-00000a.json", "000003.json", "event-99999999999999999999.json", "EVENT-000003.json", "event-000003.JSON"}
	aliens := append([]string{"notes.txt", "event-000003.json~", "event-000003.json.bak", "event-", "meta.json", "json"}, like...)
	for _, name := range aliens {
		write(t, l, name, "{}")
	}
	for _, name := range []string{".hidden", ".event-ABCDE.tmp", "ledger.lock", "ledger.lock.reclaim", "ledger.lock.reclaim.0"} {
		write(t, l, name, "")
	}
	var named []string
	var read int
	for event, err := range l.Events(0) {
		if err == nil {
			read++
			continue
		}
		complains(t, err, ledger.ErrDamaged)
		equal(t, event.Sequence, 0, err, "has number")
		isLike := slices.ContainsFunc(like, func(name string) bool { return strings.Contains(err.Error(), at(l, name)+":") })
		if errors.Is(err, ledger.ErrAlien) == isLike {
			t.Errorf("%v: harmless: %v", err, !isLike)
		}
		named = append(named, err.Error())
	}
	all := strings.Join(named, "\n")
	for _, name := range aliens {
		contains(t, all, at(l, name)+":", name, "is not named")
	}
	that(t, len(named) == len(aliens) && read == 2, "%d events, and:\n%s", read, all)
	for _, n := range []int64{0, -1, -1 << 63} {
		_, err := l.Read(n)
		complains(t, err, fs.ErrNotExist)
	}
	remove(t, l, "ledger.lock")
	remove(t, l, "ledger.lock.reclaim")
	appends(t, l, "3", 3)
	for _, name := range aliens {
		noErr(t, errOf(os.Lstat(at(l, name))))
	}
}

// TestEvents_Unreadable: an error that has nothing to do with one event is the last,
// so that who goes on after errors comes to an end.
func TestEvents_Unreadable(t *testing.T) {
	for _, l := range []ledger.Ledger{{}, {Dir: t.TempDir(), Prefix: "a/b"}} {
		for _, after := range []int64{0, 1} {
			count := 0
			for _, err := range l.Events(after) {
				if count++; count > 1 || err == nil {
					t.Fatalf("%d: %v", count, err)
				}
			}
			equal(t, count, 1, "no error")
		}
	}
}

// TestAppend_HostileTemp: what lies where the temporary file goes does no harm, and
// what it leads to is not touched.
func TestAppend_HostileTemp(t *testing.T) {
	for name, intrude := range intruders {
		t.Run(name, func(t *testing.T) {
			l := filled(t, 1)
			check(t, intrude(at(l, ".event-other.tmp")))
			if name != "folder" {
				check(t, intrude(at(l, ".event-solo.tmp")))
			}
			remove(t, l, ".head") // so that they are looked for
			appends(t, l, "2", 2)
			if n, err := l.AppendBatch(background, numbered(2, 2)); n != 4 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			holds(t, l, "1", "2", "3", "4")
		})
	}
	// A link that a crash left from the name of the temporary file to an event.
	l := filled(t, 1)
	check(t, os.Link(at(l, "event-000001.json"), at(l, ".event-solo.tmp")))
	appends(t, l, "2", 2)
	holds(t, l, "1", "2")
}

// TestAppend_ManyEvents: numbers beyond 999,999 have seven digits.
func TestAppend_ManyEvents(t *testing.T) {
	l := fresh(t)
	write(t, l, "event-999998.json", "1")
	write(t, l, ".head", `{"sequence":999998}`)
	for n := int64(999999); n < 1000003; n++ {
		appends(t, l, "1", n)
	}
	for event, err := range l.Events(999997) {
		that(t, err == nil && event.Sequence <= 1000002, "%d: %v", event.Sequence, err)
	}
	want := "event-1000000.json event-1000001.json event-1000002.json event-999998.json event-999999.json"
	equal(t, files(t, l), want)
	for event, err := range l.Events(0) {
		if event.Sequence == 0 {
			t.Error(err) // an event that is taken for an alien
		}
		if event.Sequence > 10 {
			break
		}
	}
	// A far one, without a hint, is the end of a gap, and no reason to go on for ever.
	write(t, l, "event-9223372036854775807.json", "1")
	remove(t, l, ".head")
	err := l.Locked(background, func(context.Context, *ledger.Writer) error { return nil })
	complains(t, err, ledger.ErrDamaged, "event-000001.json")
}
