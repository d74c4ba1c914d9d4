package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock/ledger"
)

// The greatest numbers, and the largest gaps.

const greatest = ledger.MaxSequence

// TestAppend_TheGreatest: behind the greatest number there is none, and nothing wraps
// around, whatever the hint says.
func TestAppend_TheGreatest(t *testing.T) {
	for _, hint := range []int64{0, 1, greatest - 1, greatest, 1<<63 - 1} {
		l := fresh(t)
		write(t, l, "event-000001.json", "1")
		for n := int64(greatest - 2); n <= greatest; n++ {
			write(t, l, fmt.Sprintf("event-%d.json", n), "1")
		}
		write(t, l, ".head", fmt.Sprintf(`{"sequence":%d}`, hint))
		n, err := l.Append(background, []byte("1"))
		if hint < 2 {
			if n != 2 && err == nil || n != 0 && err != nil { // nobody has looked so far
				t.Errorf("hint %d: %d, %v", hint, n, err)
			}
			continue
		}
		complains(t, err, ledger.ErrDamaged)
		equal(t, n, 0, "hint", hint, "appended as")
	}
}

// TestEvents_BeyondTheGreatest: a number that no event can have is an alien's.
func TestEvents_BeyondTheGreatest(t *testing.T) {
	l := filled(t, 2)
	alien := fmt.Sprintf("event-%d.json", int64(1<<63-1))
	write(t, l, alien, "{}")
	var errs []error
	var read []int64
	for event, err := range l.Events(0) {
		if err != nil {
			errs = append(errs, err)
		} else {
			read = append(read, event.Sequence)
		}
	}
	if len(errs) != 1 || !slices.Equal(read, []int64{1, 2}) {
		t.Fatalf("%v, %v", read, errs)
	}
	complains(t, errs[0], ledger.ErrDamaged, at(l, alien))
	appends(t, l, "3", 3)
}

// TestEvents_Gap: of many that are missing in a row one error tells, and what comes behind
// them is read.
func TestEvents_Gap(t *testing.T) {
	l := filled(t, 2)
	for _, n := range []int64{1000, greatest} {
		write(t, l, fmt.Sprintf("event-%06d.json", n), "1")
	}
	for _, after := range []int64{0, 2} {
		var read []int64
		var errs []error
		for event, err := range l.Events(after) {
			if err != nil {
				errs = append(errs, err)
			} else {
				read = append(read, event.Sequence)
			}
			if len(errs) > 2 {
				break
			}
		}
		want := []int64{1, 2, 1000, greatest}
		if after == 2 { // nobody looks further than a few, without a sign
			that(t, len(read) == 0 && len(errs) == 0, "behind %d: %v, %v", after, read, errs)
			continue
		}
		if !slices.Equal(read, want[after:]) || len(errs) != 2 {
			t.Fatalf("behind %d: %v, %v", after, read, errs)
		}
		complains(t, errs[0], ledger.ErrDamaged, at(l, "event-000003.json"), "996")
		complains(t, errs[1], ledger.ErrDamaged, at(l, "event-001001.json"), fmt.Sprint(int64(greatest-1000-2)))
	}
}

// TestBatch_FileMissing: of a batch that was decided a file in the middle is missing. The
// events before it are not given up without a word.
func TestBatch_FileMissing(t *testing.T) {
	l := decided(t, 2, 0, 0) // three
	var temps []string
	for i := range 3 {
		temps = append(temps, fmt.Sprintf(goldenTemp, i+1))
	}
	remove(t, l, temps[1])
	before := files(t, l)
	for range 2 {
		n, err := l.Append(background, []byte("1"))
		complains(t, err, ledger.ErrDamaged, at(l, temps[1]), ".batch")
		if n != 0 || files(t, l) != before {
			t.Errorf("appended %d; there is %s, and was %s", n, files(t, l), before)
		}
	}
	write(t, l, temps[1], `"part 2"`)
	appends(t, l, "6", 6)
	holds(t, l, "1", "2", `"part 1"`, `"part 2"`, `"part 3"`, "6")
}

// TestBatch_FilesMissing: whichever files of a decided batch are missing, nothing is appended,
// and nothing given up without a word; save where the first ones are missing, as they are once
// they are published.
func TestBatch_FilesMissing(t *testing.T) {
	for missing := 1; missing < 1<<3; missing++ {
		if missing&(missing+1) == 0 { // the first ones
			continue
		}
		l := decided(t, 2, 0, 0)
		for i := range 3 {
			if missing>>i&1 != 0 {
				remove(t, l, fmt.Sprintf(goldenTemp, i+1))
			}
		}
		before := files(t, l)
		n, err := l.Append(background, []byte("1"))
		if n != 0 || !errors.Is(err, ledger.ErrDamaged) || files(t, l) != before {
			t.Errorf("without those of %03b: appended %d, %v; there is %s, and was %s", missing, n, err, files(t, l), before)
		}
	}
}

// TestBatch_NothingGivenUp: what was decided stays, whatever goes wrong behind that: here there
// are no numbers left.
func TestBatch_NothingGivenUp(t *testing.T) {
	l := fresh(t)
	write(t, l, "event-000001.json", "1")
	write(t, l, fmt.Sprintf("event-%d.json", int64(greatest-1)), "1")
	write(t, l, ".head", fmt.Sprintf(`{"sequence":%d}`, int64(greatest-1)))
	err := l.Locked(background, func(_ context.Context, w *ledger.Writer) error {
		for range 2 { // the second one has to finish first
			n, err := w.Append([]byte(`"a"`), []byte(`"b"`), []byte(`"c"`))
			that(t, n == 0 && err != nil, "appended %d, %v", n, err)
			if got := files(t, l); strings.Count(got, ".tmp") != 2 || !strings.HasPrefix(got, ".batch ") {
				t.Errorf("there are %s", got)
			}
		}
		return nil
	})
	check(t, err)
	_, err = l.AppendBatch(background, [][]byte{[]byte(`"d"`), []byte(`"e"`)})
	complains(t, err, ledger.ErrDamaged)
	if got := files(t, l); strings.Count(got, ".tmp") != 2 || !strings.HasPrefix(got, ".batch ") {
		t.Errorf("in the end there are %s", got)
	}
}
