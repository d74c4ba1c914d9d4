package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/ledger"
)

const goldenTemp = ".event-GOLDENGOLDENGOLDENGOLDENGO-%06d.tmp"

// decided is a ledger with n events, whose writer died when it had decided on a batch
// of three, and published some of them. others are what another program appended since.
func decided(t *testing.T, n, published, others int) ledger.Ledger {
	l := filled(t, n)
	write(t, l, ".batch", golden(t, "batch"))
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf(goldenTemp, i)
		if i <= published {
			name = fmt.Sprintf("event-%06d.json", n+i)
		}
		write(t, l, name, fmt.Sprintf(`"part %d"`, i))
	}
	for i := range others {
		write(t, l, fmt.Sprintf("event-%06d.json", n+published+i+1), `"other"`)
	}
	return l
}

// TestBatch_Finished: at whatever step a writer died behind its decision, and whatever
// another program has appended since, the next writer finishes: each event is there
// once, and in order.
func TestBatch_Finished(t *testing.T) {
	for _, n := range []int{0, 2} {
		for published := range 4 {
			for others := range 4 {
				for _, hint := range []bool{true, false} {
					l := decided(t, n, published, others)
					if !hint {
						os.Remove(at(l, ".head"))
					}
					appends(t, l, `"next"`, int64(n+3+others+1))
					var want []string
					for i := range n {
						want = append(want, fmt.Sprint(i+1))
					}
					for i := 1; i <= published; i++ {
						want = append(want, fmt.Sprintf(`"part %d"`, i))
					}
					for range others {
						want = append(want, `"other"`)
					}
					for i := published + 1; i <= 3; i++ {
						want = append(want, fmt.Sprintf(`"part %d"`, i))
					}
					holds(t, l, append(want, `"next"`)...)
					if got := files(t, l); strings.Contains(got, "tmp") || strings.Contains(got, "batch") {
						t.Errorf("%d published, %d others: left behind: %s", published, others, got)
					}
				}
			}
		}
	}
}

// TestBatch_FinishedFirst: a batch counts as appended for who expects a number, even
// if that one appends nothing.
func TestBatch_FinishedFirst(t *testing.T) {
	l := decided(t, 2, 1, 0)
	_, err := l.AppendIfSequence(background, []byte("1"), 3)
	var mismatch *ledger.SequenceError
	that(t, errors.As(err, &mismatch) && mismatch.Actual == 5, "got %v, want that it is at 5", err)
	holds(t, l, "1", "2", `"part 1"`, `"part 2"`, `"part 3"`)
}

// TestBatch_TwoNames: a crash between the two steps of renaming, where the system
// needs two, leaves an event with both its names.
func TestBatch_TwoNames(t *testing.T) {
	l := decided(t, 2, 0, 0)
	check(t, os.Link(at(l, fmt.Sprintf(goldenTemp, 1)), at(l, "event-000003.json")))
	appends(t, l, `"next"`, 6)
	holds(t, l, "1", "2", `"part 1"`, `"part 2"`, `"part 3"`, `"next"`)
}

// TestBatch_GoldenLater: a later version's decision, with further fields, is
// understood.
func TestBatch_GoldenLater(t *testing.T) {
	l := decided(t, 0, 0, 0)
	write(t, l, ".batch", golden(t, "batch-later"))
	appends(t, l, `"next"`, 4)
	holds(t, l, `"part 1"`, `"part 2"`, `"part 3"`, `"next"`)
}

// TestBatch_Golden: what is written is what was written by earlier versions.
func TestBatch_Golden(t *testing.T) { // guards: O1
	l := fresh(t)
	var got []byte
	for last := int64(0); len(got) == 0; last += 300 { // until it is seen
		done := make(chan error)
		go func() {
			_, err := l.AppendBatch(background, numbered(last, 300))
			done <- err
		}()
		for seen := false; !seen; {
			select {
			case err := <-done:
				if seen = true; err != nil {
					t.Fatal(err)
				}
			default:
				if data, err := os.ReadFile(at(l, ".batch")); err == nil {
					got = data
				}
			}
		}
	}
	want := strings.Replace(strings.Replace(golden(t, "batch"), "3", "300", 1), "GOLDENGOLDENGOLDENGOLDENGO", "[A-Z2-7]{26}", 1)
	that(t, regexp.MustCompile("^"+want+"$").Match(got), "got %q, want %q", got, want)
}

// TestBatch_Killed: a writer is killed when it has decided, a few times over. What it
// decided is there as a whole.
func TestBatch_Killed(t *testing.T) {
	l := fresh(t)
	for hits := 0; hits < 5; {
		// In a new folder, as the role counts from 1.
		l.Dir = t.TempDir()
		c, _ := start(t, "batcher", l.Dir)
		eventually(t, "a batch is decided", func() bool {
			_, err := os.Lstat(at(l, ".batch"))
			return err == nil
		})
		c.Kill()
		if _, err := os.Lstat(at(l, ".batch")); err == nil {
			hits++
		}
		check(t, l.Locked(background, func(context.Context, *ledger.Writer) error { return nil }))
		n, err := l.Sequence()
		that(t, err == nil && n%300 == 0 && n != 0, "%d events, %v", n, err)
		var want []string
		for _, event := range numbered(0, int(n)) {
			want = append(want, string(event))
		}
		holds(t, l, want...)
		if got := files(t, l); strings.Contains(got, "tmp") || strings.Contains(got, "batch") {
			t.Error("left behind: temporary files")
		}
	}
}

// TestBatch_Unfinished: what goes wrong behind the decision is ErrUnfinished. Nothing
// gets between the events: the same Writer, or the next, finishes first.
func TestBatch_Unfinished(t *testing.T) {
	const size = 1000
	for _, same := range []bool{true, false} {
		l := fresh(t)
		var want []string
		for unfinished := false; !unfinished; { // until somebody came between
			err := l.Locked(background, func(_ context.Context, w *ledger.Writer) error {
				hidden := make(chan string)
				done := make(chan struct{})
				go func() { hidden <- hideLast(l, size, done) }()
				_, err := w.Append(numbered(w.Sequence(), size)...)
				close(done)
				if back := <-hidden; back != "" {
					if rerr := os.Rename(back+".hidden", back); rerr != nil {
						t.Error(rerr)
					}
				}
				for _, event := range numbered(int64(len(want)), size) {
					want = append(want, string(event))
				}
				if errors.Is(err, ledger.ErrUnfinished) && same {
					unfinished = true
					want = append(want, fmt.Sprint(len(want)+1))
					n, err := w.Append([]byte(want[len(want)-1]))
					if n != int64(len(want)) {
						t.Errorf("appended as %d, want %d", n, len(want))
					}
					return err
				}
				return err
			})
			if errors.Is(err, ledger.ErrUnfinished) && !same {
				unfinished = true
				want = append(want, fmt.Sprint(len(want)+1))
				appends(t, l, want[len(want)-1], int64(len(want)))
			} else if err != nil {
				t.Fatal(err)
			}
		}
		holds(t, l, want...)
	}
}

// hideLast renames the last temporary file of a batch when it is decided, and returns
// its name.
func hideLast(l ledger.Ledger, size int, done chan struct{}) string {
	for {
		select {
		case <-done:
			return ""
		default:
		}
		data, err := os.ReadFile(at(l, ".batch"))
		if err != nil {
			continue
		}
		id := regexp.MustCompile(`[A-Z2-7]{26}`).FindString(string(data))
		name := at(l, fmt.Sprintf(".event-%s-%06d.tmp", id, size))
		if os.Rename(name, name+".hidden") == nil {
			return name
		}
	}
}

// TestBatch_NotDecided: the events of a batch that was not decided are not there, and
// their temporary files go: at once when their writer was seen to be dead, or else
// when nobody has looked for long.
func TestBatch_NotDecided(t *testing.T) {
	l := filled(t, 1)
	c, _ := start(t, "drafter", l.Dir)
	c.Kill()
	write(t, l, ".event-af123.tmp", `"another program's"`)
	appends(t, l, "2", 2)
	holds(t, l, "1", "2")
	equal(t, files(t, l), "event-000001.json event-000002.json", "left behind")

	draft := fmt.Sprintf(goldenTemp, 1)
	for name, head := range map[string]string{
		"no hint": "", "long ago": fmt.Sprintf(`{"sequence":2,"swept_at":%q}`, time.Now().Add(-25*time.Hour).Format(time.RFC3339)),
		"by a clock that was set back since": fmt.Sprintf(`{"sequence":2,"swept_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339)),
	} {
		write(t, l, draft, `"draft"`)
		remove(t, l, ".head")
		if head != "" {
			write(t, l, ".head", head)
		}
		noErr(t, l.Locked(background, func(context.Context, *ledger.Writer) error { return nil }))
		equal(t, files(t, l), "event-000001.json event-000002.json", name, "left behind")
	}
}

// TestSweep_OthersData: only temporary files of events go.
func TestSweep_OthersData(t *testing.T) {
	l := filled(t, 1)
	keep := []string{".events", ".event.tmp", "event-x.tmp", ".event-notes", ".other-x.tmp", "data.json", ".event-x.tmp~"}
	for _, name := range keep {
		write(t, l, name, "data")
	}
	write(t, l, ".event-x.tmp", "1")
	remove(t, l, ".head")
	appends(t, l, "2", 2)
	for _, name := range keep {
		if data, err := os.ReadFile(at(l, name)); err != nil || string(data) != "data" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	that(t, errOf(os.Lstat(at(l, ".event-x.tmp"))) != nil, "the temporary file is there")
}

// TestBatch_InTheWay: what another has put where the decision is to be stays as it is, and
// nothing of ours is left.
func TestBatch_InTheWay(t *testing.T) {
	l := filled(t, 1)
	err := l.Locked(background, func(_ context.Context, w *ledger.Writer) error {
		write(t, l, ".batch", "theirs")
		if n, err := w.Append([]byte("2"), []byte("3")); n != 0 || !errors.Is(err, fs.ErrExist) {
			t.Errorf("appended %d, %v", n, err)
		}
		return nil
	})
	check(t, err)
	equal(t, files(t, l), ".batch event-000001.json")
	if data, err := os.ReadFile(at(l, ".batch")); string(data) != "theirs" {
		t.Errorf("%q, %v", data, err)
	}
}
