package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// TestAppend: events get the numbers from 1, and are read as they were appended.
func TestAppend(t *testing.T) {
	l := fresh(t)
	l.NoSync = false
	holds(t, l)
	appends(t, l, `{"type":"a"}`, 1)
	appends(t, l, ` [1, 2]`+"\n", 2)
	if n, err := l.AppendIfSequence(background, []byte("3"), 2); n != 3 || err != nil {
		t.Errorf("appended as %d, %v", n, err)
	}
	if n, err := l.AppendBatch(background, [][]byte{[]byte("4"), []byte("5"), []byte("6")}); n != 6 || err != nil {
		t.Errorf("appended up to %d, %v", n, err)
	}
	holds(t, l, `{"type":"a"}`, " [1, 2]\n", "3", "4", "5", "6")
	if event, err := l.Read(2); err != nil || event.Sequence != 2 || string(event.Data) != " [1, 2]\n" {
		t.Errorf("read %+v, %v", event, err)
	}
	_, err := l.Read(7)
	complains(t, err, fs.ErrNotExist)
	if got, want := files(t, l), "event-000001.json event-000002.json event-000003.json event-000004.json event-000005.json event-000006.json"; got != want {
		t.Errorf("the folder holds %s", got)
	}
	if n, err := l.AppendBatch(background, nil); n != 6 || err != nil {
		t.Errorf("appended nothing up to %d, %v", n, err)
	}
}

// TestEvents_After: reading begins behind a number, ends where the reader says, and
// finds what is appended meanwhile.
func TestEvents_After(t *testing.T) {
	l := filled(t, 5)
	var got []string
	for event, err := range l.Events(2) {
		check(t, err)
		got = append(got, string(event.Data))
		if event.Sequence == 5 {
			appends(t, l, "6", 6)
		}
	}
	equal(t, strings.Join(got, " "), "3 4 5 6")
	for event := range l.Events(0) {
		if event.Sequence > 1 {
			t.Fatal("goes on after break")
		}
		break
	}
	for _, after := range []int64{6, 7, 1000, 1<<63 - 1} {
		for event, err := range l.Events(after) {
			t.Fatalf("behind %d there is %v, %v", after, event, err)
		}
	}
}

// TestAppendIfSequence_Mismatch: the error says where the ledger is, and nothing was
// written.
func TestAppendIfSequence_Mismatch(t *testing.T) {
	l := filled(t, 3)
	for _, expected := range []int64{0, 2, 4, -1} {
		n, err := l.AppendIfSequence(background, []byte("9"), expected)
		complains(t, err, ledger.ErrSequenceMismatch, at(l, "")[:len(at(l, ""))-1], "3", fmt.Sprint(expected))
		var mismatch *ledger.SequenceError
		if !errors.As(err, &mismatch) || mismatch.Expected != expected || mismatch.Actual != 3 || n != 0 {
			t.Errorf("%d, %+v", n, mismatch)
		}
	}
	holds(t, l, "1", "2", "3")
}

// TestAppend_NeverReplaces: somebody who does not ask for the lock takes the number
// in between. Theirs stays, ours is not there, and no number is left out after it.
func TestAppend_NeverReplaces(t *testing.T) {
	l := filled(t, 1)
	err := l.Locked(background, func(_ context.Context, w *ledger.Writer) error {
		write(t, l, "event-000002.json", `"theirs"`)
		_, err := w.Append([]byte(`"ours"`))
		return err
	})
	complains(t, err, ledger.ErrSequenceMismatch)
	equal(t, files(t, l), "event-000001.json event-000002.json", "left behind")
	appends(t, l, `"again"`, 3)
	holds(t, l, "1", `"theirs"`, `"again"`)
}

// TestAppendBatch_NeverReplaces: nor does a batch.
func TestAppendBatch_NeverReplaces(t *testing.T) {
	l := filled(t, 1)
	err := l.Locked(background, func(_ context.Context, w *ledger.Writer) error {
		write(t, l, "event-000002.json", `"theirs"`)
		_, err := w.Append([]byte(`"a"`), []byte(`"b"`))
		return err
	})
	noErr(t, err)
	holds(t, l, "1", `"theirs"`, `"a"`, `"b"`)
}

// TestAppend_Invalid: what is no event is refused before anything is touched.
func TestAppend_Invalid(t *testing.T) {
	tooLarge := append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, ledger.MaxEvent)...), '"')
	for name, event := range map[string]string{
		"empty": "", "nil": "", "blank": "  ", "half": `{"type":`, "two": "1 2", "text": "hello", "NUL": "\x00",
		"large": string(tooLarge),
	} {
		t.Run(name, func(t *testing.T) {
			l := fresh(t)
			_, err := l.Append(background, []byte(event))
			complains(t, err, ledger.ErrInvalidEvent)
			_, err = l.AppendIfSequence(background, []byte(event), 0)
			complains(t, err, ledger.ErrInvalidEvent)
			_, err = l.AppendBatch(background, [][]byte{[]byte("1"), []byte(event), []byte("3")})
			complains(t, err, ledger.ErrInvalidEvent, "event 2 of 3")
			if entries, err := os.ReadDir(l.Dir); err != nil || len(entries) > 0 {
				t.Errorf("%v in the folder, %v", entries, err)
			}
			err = l.Locked(background, func(_ context.Context, w *ledger.Writer) error {
				_, err := w.Append([]byte(event))
				return err
			})
			complains(t, err, ledger.ErrInvalidEvent)
			equal(t, files(t, l), "", "written")
		})
	}
	l := fresh(t)
	appends(t, l, string(tooLarge[:ledger.MaxEvent-1])+`"`, 1) // the largest that may be
	noErr(t, errOf(l.Read(1)))
}

// TestLocked: what is decided under the lock holds when it is appended; the lock
// can't be taken twice, and its Writer is of no use afterwards.
func TestLocked(t *testing.T) {
	l := filled(t, 2)
	var kept *ledger.Writer
	failure := errors.New("changed my mind")
	err := l.Locked(background, func(ctx context.Context, w *ledger.Writer) error {
		kept = w
		equal(t, w.Sequence(), 2, "at")
		if n, err := w.AppendIfSequence(2, []byte("3"), []byte("4")); n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		_, err := w.AppendIfSequence(2, []byte("5"))
		complains(t, err, ledger.ErrSequenceMismatch)
		_, err = l.Append(ctx, []byte("5"))
		complains(t, err, lock.ErrReentrant)
		_, err = l.AppendIfSequence(ctx, []byte("5"), 4)
		complains(t, err, lock.ErrReentrant)
		return failure
	})
	that(t, err == failure, "got %v, want the function's own error as it is", err)
	for _, expected := range []int64{2, 4} {
		if _, err := kept.AppendIfSequence(expected, []byte("5")); err == nil || errors.Is(err, ledger.ErrSequenceMismatch) {
			t.Errorf("a Writer without a lock: %v", err)
		}
	}
	that(t, errOf(kept.Append([]byte("5"))) != nil, "a Writer without a lock has appended")
	holds(t, l, "1", "2", "3", "4")
}

// TestAppend_LockRemoved: somebody removes the lock file of a live writer. Its event
// is there all the same, so it must not be told that it failed, and append anew.
func TestAppend_LockRemoved(t *testing.T) {
	l := filled(t, 1)
	lost := false
	l.Observe = func(e lock.Event) {
		if e.Kind == lock.EventAcquired {
			remove(t, l, "ledger.lock")
		}
		lost = lost || e.Kind == lock.EventLost
	}
	appends(t, l, "2", 2)
	that(t, lost, "the observer was not told")
	if n, err := l.AppendIfSequence(background, []byte("3"), 2); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	_, err := l.AppendIfSequence(background, []byte("4"), 2)
	complains(t, err, ledger.ErrSequenceMismatch)
	complains(t, l.Locked(background, func(context.Context, *ledger.Writer) error { return nil }), lock.ErrLost)
	empty := fresh(t)
	empty.Observe = func(e lock.Event) {
		if e.Kind == lock.EventAcquired {
			remove(t, empty, "ledger.lock")
		}
	}
	if n, err := empty.AppendBatch(background, nil); n != 0 || !errors.Is(err, lock.ErrLost) { // nothing was appended
		t.Errorf("no events: %d, %v", n, err)
	}
	l.Observe = nil
	holds(t, l, "1", "2", "3")
}

// TestAppend_Synced: the name of each folder that is made is on disk, and that of the event. So
// the folder that a new one is in is synced, and then the ledger's.
func TestAppend_Synced(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "proof")
	var synced []string
	l := ledger.Ledger{Dir: dir}.Synced(func(path string) { synced = append(synced, path) })
	appends(t, l, "1", 1)
	if want := []string{above, dir, filepath.Join(dir, "ledger")}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	synced = nil
	appends(t, l, "2", 2)
	if want := []string{filepath.Join(dir, "ledger")}; !slices.Equal(synced, want) {
		t.Errorf("the second time: synced %q, want %q", synced, want)
	}
	synced = nil
	if _, err := l.AppendBatch(background, [][]byte{[]byte("3"), []byte("4")}); err != nil || len(synced) == 0 {
		t.Errorf("a batch: %v; synced %q", err, synced)
	}
	synced, l.NoSync = nil, true
	appends(t, l, "5", 5)
	that(t, len(synced) == 0, "without sync: synced %q", synced)
}

// TestAppend_Timeout: a wait has a limit, unless the caller says otherwise.
func TestAppend_Timeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 1: 1, -1: -1} {
		equal(t, (ledger.Ledger{Timeout: timeout}).Patience(), want, "Timeout", timeout, "it waits")
	}
}
