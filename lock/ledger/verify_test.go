package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock/ledger"
)

// verified is what Verify finds, and the events that it shows, in short.
func verified(t *testing.T, l ledger.Ledger) (problems []ledger.Problem, shown string) {
	t.Helper()
	for p, err := range l.Verify(func(e ledger.Event) error {
		shown += fmt.Sprintf("%d ", e.Sequence)
		if string(e.Data) == `"bad"` {
			return errors.New("says bad things")
		}
		return nil
	}) {
		check(t, err)
		problems = append(problems, p)
	}
	return problems, shown
}

// TestVerify: each problem is told with its file, and what to do; and when that was done the
// ledger is whole.
func TestVerify(t *testing.T) {
	l := filled(t, 13)
	if problems, shown := verified(t, l); len(problems) > 0 || shown != "1 2 3 4 5 6 7 8 9 10 11 12 13 " {
		t.Errorf("whole: %v, %s", problems, shown)
	}
	for _, n := range []int{3, 5, 6, 7} {
		remove(t, l, fmt.Sprintf("event-%06d.json", n))
	}
	write(t, l, "event-000009.json", `{"half":`)
	write(t, l, "event-000010.json", ``)
	remove(t, l, "event-000011.json")
	check(t, os.Mkdir(at(l, "event-000011.json"), 0o777))
	write(t, l, "event-000012.json", `"bad"`)
	write(t, l, "event-3.json", `"3"`)
	write(t, l, "notes.txt", ``)
	problems, shown := verified(t, l)
	equal(t, shown, "1 2 4 8 12 13 ", "shown")
	slices.SortStableFunc(problems, func(a, b ledger.Problem) int { return strings.Compare(a.Path, b.Path) })
	for i, want := range []struct {
		kind              ledger.ProblemKind
		name              string
		sequence, missing int64
		what              string
	}{
		{ledger.ProblemMissing, "event-000003.json", 3, 1, "missing, though"},
		{ledger.ProblemMissing, "event-000005.json", 5, 3, "missing, and the 2 behind it"},
		{ledger.ProblemDamaged, "event-000009.json", 9, 0, "not JSON"},
		{ledger.ProblemDamaged, "event-000010.json", 10, 0, "empty"},
		{ledger.ProblemDamaged, "event-000011.json", 11, 0, "not a regular file"},
		{ledger.ProblemDamaged, "event-000012.json", 12, 0, "says bad things"},
		{ledger.ProblemMisnamed, "event-3.json", 0, 0, "much like an event"},
		{ledger.ProblemAlien, "notes.txt", 0, 0, "none of the ledger's"},
	} {
		if i >= len(problems) {
			t.Fatalf("only %d problems: %v", len(problems), problems)
		}
		p := problems[i]
		if p.Kind != want.kind || p.Path != at(l, want.name) || p.Sequence != want.sequence || p.Missing != want.missing ||
			!strings.Contains(p.What, want.what) || p.Next == "" || p.Harmless() != (want.kind == ledger.ProblemAlien) {
			t.Errorf("got %+v, want %v", p, want)
		}
	}
	equal(t, len(problems), 8, "problems:", problems)

	check(t, os.Rename(at(l, "event-3.json"), at(l, "event-000003.json")))
	remove(t, l, "event-000011.json")
	for _, n := range []int{5, 6, 7, 9, 10, 11, 12} {
		write(t, l, fmt.Sprintf("event-%06d.json", n), "null")
	}
	remove(t, l, "notes.txt")
	for p, err := range l.Verify(nil) {
		t.Errorf("mended: %v, %v", p, err)
	}
	holds(t, l, "1", "2", `"3"`, "4", "null", "null", "null", "8", "null", "null", "null", "null", "13")
	appends(t, l, "14", 14)
}

// TestVerify_LeftOut: what the listing of a folder that grows has left out is looked for.
func TestVerify_LeftOut(t *testing.T) {
	l := filled(t, 6)
	remove(t, l, "event-000005.json")
	got := ""
	for n, missing := range l.InOrder([]int64{1, 4, 6}) {
		got += fmt.Sprint(n, ":", missing, " ")
	}
	equal(t, got, "1:0 2:0 3:0 4:0 5:1 6:0 ")
}

// TestVerify_Far: a gap is told at once, however wide it is.
func TestVerify_Far(t *testing.T) {
	l := filled(t, 2)
	write(t, l, fmt.Sprintf("event-%d.json", int64(greatest)), "1")
	problems, _ := verified(t, l)
	that(t, len(problems) == 1 && problems[0].Sequence == 3 && problems[0].Missing == greatest-3, "%+v", problems)
}

// TestVerify_Batch: a batch that nobody can finish is told; one that the next writer will
// finish is not, nor what somebody is just publishing.
func TestVerify_Batch(t *testing.T) {
	l := filled(t, 2)
	write(t, l, ".batch", `{"id":"X","events":2}`)
	write(t, l, ".event-X-000002.tmp", `4`)
	if problems, _ := verified(t, l); len(problems) > 0 {
		t.Errorf("one is published, and one is left: %+v", problems)
	}
	remove(t, l, ".event-X-000002.tmp")
	write(t, l, ".event-X-000001.tmp", `3`)
	broken := func(kind ledger.ProblemKind, name string) {
		t.Helper()
		problems, _ := verified(t, l)
		if len(problems) != 1 || problems[0].Kind != kind || problems[0].Path != at(l, name) || !strings.Contains(problems[0].Next, "remove") {
			t.Errorf("got %+v, want %s", problems, name)
		}
		_, err := l.Append(background, []byte("9"))
		complains(t, err, ledger.ErrDamaged, at(l, name), "put it back")
	}
	broken(ledger.ProblemMissing, ".event-X-000002.tmp")
	write(t, l, ".batch", `{}`)
	broken(ledger.ProblemDamaged, ".batch")
	write(t, l, "ledger.lock", "")
	if problems, _ := verified(t, l); len(problems) > 0 {
		t.Errorf("while somebody appends: %+v", problems)
	}
	remove(t, l, "ledger.lock")
	write(t, l, "ledger.lock", `{"pid":2147483647,"created_at":"2024-01-15T10:30:00Z"}`) // dead
	broken(ledger.ProblemDamaged, ".batch")
	remove(t, l, ".batch")
	appends(t, l, "3", 3)
}

// TestVerify_None: what is no ledger, or has events of another prefix, is an error.
func TestVerify_None(t *testing.T) {
	other := filled(t, 2)
	other.Prefix = "x-"
	for _, l := range []ledger.Ledger{{}, {Dir: t.TempDir() + "/absent"}, other} {
		var errs []error
		for p, err := range l.Verify(nil) {
			errs = append(errs, err)
			that(t, err != nil, "%+v: %+v", l, p)
		}
		equal(t, len(errs), 1, l, errs)
	}
}

// TestVerify_WhileAppending: what comes and goes while somebody appends is no problem.
func TestVerify_WhileAppending(t *testing.T) {
	l := fresh(t)
	check(t, os.MkdirAll(at(l, ""), 0o777))
	done := make(chan error, 1)
	go func() {
		for n := int64(0); n < 600; n += 3 {
			if _, err := l.AppendBatch(background, numbered(n, 3)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		problems, _ := verified(t, l)
		if len(problems) > 0 {
			t.Fatalf("%+v", problems)
		}
		select {
		case err := <-done:
			check(t, err)
			return
		default:
		}
	}
}
