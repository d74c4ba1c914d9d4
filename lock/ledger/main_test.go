package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// roles say a line when they are where they were to get, and then do nothing more.
var roles = map[string]func(dir string) error{
	"holder":  holder,
	"drafter": drafter,
	"batcher": batcher,
}

func TestMain(m *testing.M) {
	testkit.Main(m, func(role string, args []string) {
		if err := roles[role](args[0]); err != nil {
			fmt.Println(err)
		}
		forever()
	})
}

// forever is until the test ends.
func forever() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

var (
	check      = testkit.Check
	that       = testkit.That
	errOf      = testkit.ErrOf
	noErr      = testkit.NoErr
	wantErr    = testkit.WantErr
	contains   = testkit.Contains
	eventually = testkit.Eventually
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

// holder appends an event, and keeps the lock.
func holder(dir string) error {
	return ledger.Ledger{Dir: dir, AgentID: "holder"}.Locked(context.Background(), func(_ context.Context, w *ledger.Writer) error {
		if _, err := w.Append([]byte(`"held"`)); err != nil {
			return err
		}
		fmt.Println("held")
		return forever()
	})
}

// drafter is a writer that stops with the lock, and with events that are written and
// not published.
func drafter(dir string) error {
	return ledger.Ledger{Dir: dir}.Locked(context.Background(), func(context.Context, *ledger.Writer) error {
		for _, name := range []string{".event-solo.tmp", ".event-ABC-000001.tmp", ".event-ABC-000002.tmp"} {
			if err := os.WriteFile(filepath.Join(dir, "ledger", name), []byte("1"), 0o600); err != nil {
				return err
			}
		}
		fmt.Println("drafted")
		return forever()
	})
}

// batcher appends batches until it is killed.
func batcher(dir string) error {
	fmt.Println("ready")
	for n := int64(0); ; {
		_, err := ledger.Ledger{Dir: dir, NoSync: true}.AppendBatch(context.Background(), numbered(n, 300))
		if err != nil {
			return err
		}
		n += 300
	}
}

// numbered are events that are their own numbers, those behind number n.
func numbered(n int64, count int) (events [][]byte) {
	for i := range count {
		events = append(events, strconv.AppendInt(nil, n+int64(i)+1, 10))
	}
	return events
}

// start starts a process that plays a role, and returns the first line that it says.
func start(t *testing.T, role, dir string) (c *testkit.Child, line string) {
	t.Helper()
	c = testkit.Start(t, role, dir)
	return c, c.Answer()
}

var background = context.Background()

// fresh is a ledger without events, and without a folder yet.
func fresh(t *testing.T) ledger.Ledger {
	return ledger.Ledger{Dir: t.TempDir(), AgentID: "me", NoSync: true}
}

// filled is one with n events, which are their own numbers.
func filled(t *testing.T, n int) ledger.Ledger {
	t.Helper()
	l := fresh(t)
	for i := range n {
		appends(t, l, fmt.Sprint(i+1), int64(i+1))
	}
	return l
}

// appends puts an event at the end, which gets the number want.
func appends(t *testing.T, l ledger.Ledger, event string, want int64) {
	t.Helper()
	equal(t, must(l.Append(background, []byte(event)))(t), want, "appended", event, "as")
}

// at is the path of a file of the ledger.
func at(l ledger.Ledger, name string) string { return filepath.Join(l.Dir, "ledger", name) }

// write puts a file into the ledger by hand.
func write(t *testing.T, l ledger.Ledger, name, contents string) {
	t.Helper()
	check(t, os.MkdirAll(at(l, ""), 0o777))
	check(t, os.WriteFile(at(l, name), []byte(contents), 0o600))
}

func remove(t *testing.T, l ledger.Ledger, name string) {
	t.Helper()
	check(t, os.Remove(at(l, name)))
}

// holds fails the test unless the ledger holds these events, and nothing is wrong.
func holds(t *testing.T, l ledger.Ledger, want ...string) {
	t.Helper()
	var got []string
	for event, err := range l.Events(0) {
		if err != nil {
			t.Errorf("event %d: %v", event.Sequence, err)
		} else if int64(len(got)+1) != event.Sequence {
			t.Errorf("event %d comes as number %d", event.Sequence, len(got)+1)
		}
		got = append(got, string(event.Data))
	}
	that(t, slices.Equal(got, want), "the ledger holds %q, want %q", got, want)
	if n, err := l.Sequence(); err != nil || n != int64(len(want)) {
		t.Errorf("the last event is %d, %v; want %d", n, err, len(want))
	}
}

// files lists the ledger's folder, less what stays there for good.
func files(t *testing.T, l ledger.Ledger) string {
	t.Helper()
	entries := must(os.ReadDir(at(l, "")))(t)
	var names []string
	for _, e := range entries {
		if e.Name() != ".head" && e.Name() != "ledger.lock.flock" {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

// complains fails the test unless err matches target and says all of want.
func complains(t *testing.T, err, target error, want ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want one that matches %q", err, target)
		return
	}
	for _, w := range want {
		that(t, strings.Contains(err.Error(), w), "error %q does not say %q", err, w)
	}
}
