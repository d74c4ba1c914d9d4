package claims_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// report is what ReapEvery told.
type report struct {
	ended []claims.Claim
	err   error
}

// TestReapEvery: it reaps at once, then every interval, tells what came of it, goes
// on after an error, and ends with its context.
func TestReapEvery(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "1", "a")
	c.add(claims.DefaultLifetime)
	ctx, cancel := context.WithCancel(t.Context())
	reports, ended := make(chan report), make(chan error, 1)
	go func() {
		ended <- m.ReapEvery(ctx, time.Millisecond, func(c []claims.Claim, err error) { reports <- report{c, err} })
	}()
	if r := <-reports; r.err != nil || len(r.ended) != 1 || r.ended[0].Owner != "a" {
		t.Errorf("the first: %v", r)
	}

	// One that expires later, claimed by another.
	foreign(t, dir, "2", "b", c.at, c.at.Add(time.Minute))
	for range 2 { // the first may tell of a look before it was there
		if r := <-reports; r.err != nil || len(r.ended) != 0 {
			t.Errorf("before it expires: %v", r)
		}
	}
	c.add(time.Minute)
	until(t, reports, func(r report) bool { return len(r.ended) == 1 && r.ended[0].Owner == "b" })

	// An error is told, and it goes on.
	bad := eventFile(dir, len(events(t, dir))+1)
	write(t, bad, `{"type":"lock_reaped"}`)
	until(t, reports, func(r report) bool {
		return errors.Is(r.err, ledger.ErrDamaged) && strings.Contains(r.err.Error(), bad)
	})
	check(t, os.WriteFile(bad, []byte("{}"), 0o644))
	until(t, reports, func(r report) bool { return r.err == nil })

	cancel()
	for done := false; !done; {
		select {
		case <-reports:
		case err := <-ended:
			if done = true; !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		}
	}
	wantStory(t, dir, "acquired 1 a", "reaped 1 a", "reaped 2 b", "  ")
}

// until waits for a report that is bound to come.
func until(t *testing.T, reports chan report, is func(report) bool) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case r := <-reports:
			if is(r) {
				return
			}
		case <-deadline:
			t.Fatal("the report never came")
		}
	}
}

// TestReapEveryRefuses: without an interval, and under a context that has ended,
// nothing is done.
func TestReapEveryRefuses(t *testing.T) {
	_, c, m := proof(t)
	claim(t, m, "1", "a")
	c.add(claims.DefaultLifetime)
	unasked := func(ended []claims.Claim, err error) { t.Errorf("reported: %v, %v", ended, err) }
	for _, interval := range []time.Duration{0, -1} {
		wantErr(t, m.ReapEvery(t.Context(), interval, unasked), lock.ErrInvalidName, "interval", interval)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, m.ReapEvery(ctx, time.Hour, unasked), context.Canceled, "under a context that has ended")
}

// TestReapEvery_LastReport: what was ended is told, also if the context has ended by then: nobody
// will find it again.
func TestReapEvery_LastReport(t *testing.T) {
	_, c, m := proof(t)
	claim(t, m, "1", "a")
	c.add(claims.DefaultLifetime)
	ctx, cancel := context.WithCancel(t.Context())
	m.Now = func() time.Time { cancel(); return c.now() }
	var reports []report
	err := m.ReapEvery(ctx, time.Hour, func(ended []claims.Claim, err error) { reports = append(reports, report{ended, err}) })
	if !errors.Is(err, context.Canceled) || len(reports) != 1 || reports[0].err != nil || len(reports[0].ended) != 1 {
		t.Errorf("%v, reported: %v", err, reports)
	}
}

// TestReapEveryWaits: a reaper that waits for the ledger's lock ends with its context,
// too, and does not report that as a failure.
func TestReapEveryWaits(t *testing.T) {
	dir, _, m := proof(t)
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan struct{})
	m.Ledger.Observe = func(e lock.Event) {
		if e.Kind == lock.EventWaiting && e.Duration == 0 {
			close(waits)
		}
	}
	l := ledger.Ledger{Dir: dir, NoSync: true}
	err := l.Locked(t.Context(), func(context.Context, *ledger.Writer) error {
		ended := make(chan error, 1)
		go func() {
			ended <- m.ReapEvery(ctx, time.Hour, func(_ []claims.Claim, err error) { t.Errorf("reported: %v", err) })
		}()
		<-waits
		cancel()
		return <-ended
	})
	wantErr(t, err, context.Canceled, "it ended with")
}
