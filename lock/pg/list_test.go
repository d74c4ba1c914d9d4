package pg_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/repolock"
)

func listed(t testing.TB, l lock.Locker) (all []lock.Status) {
	t.Helper()
	for s, err := range l.List(limited(t)) {
		check(t, err)
		all = append(all, s)
	}
	return all
}

// TestQueryAdvisoryLocks is the agent service's (see FORMATS.md): pid,
// application_name, state, query_start, namespace, entity_id, mode, granted, and since
// when.
func TestQueryAdvisoryLocks(t *testing.T) {
	conn := database(t)
	l, k := open(t, pg.Options{Conn: conn, Cmd: "list me"}), key()
	held := acquire(t, l, k)
	came := begin(open(t, pg.Options{Conn: conn, Cmd: "waits"}), limited(t), k)
	untilWaiting(t, l, k)
	all := listed(t, l)
	if len(all) != 1 || len(all[0].Processes) != 1 || len(all[0].Waiters) != 1 {
		t.Fatalf("listed: %+v, want one lock, with a holder and a waiter", all)
	}
	l1 := all[0]
	if l1.Key != k || l1.Info.PID != held.Info().PID || l1.Info.Cmd != "list me" || l1.Shared || l1.Info.CreatedAt.IsZero() ||
		l1.State != evidence.Held || l1.Evidence != pg.EvidenceSessionHolds {
		t.Errorf("the lock: %+v, %+v", l1, l1.Info)
	}
	if p := l1.Processes[0]; p.PID != l1.Info.PID || p.Cmd != "list me" || p.Activity != "idle" || p.QueryStart.IsZero() || len(p.BlockedBy) != 0 {
		t.Errorf("the holder: %+v", p)
	}
	if p := l1.Waiters[0]; p.Cmd != "waits" || p.Activity != "active" || p.Since.IsZero() || !slices.Equal(p.BlockedBy, []int{held.Info().PID}) {
		t.Errorf("who waits: %+v", p)
	}
	check(t, held.Release())
	check(t, await(t, "the lock", came).mustHave(t).Release())
	reader := must(l.AcquireShared(limited(t), k))(t)
	if all := listed(t, l); len(all) != 1 || !all[0].Shared || all[0].Info.Mode != "shared" {
		t.Errorf("a reader is listed as %+v", all)
	}
	check(t, reader.Release())
}

// onTime is a context whose deadline passes when over is closed.
type onTime struct {
	context.Context
	over <-chan struct{}
}

func (c onTime) Done() <-chan struct{} { return c.over }

func (c onTime) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestSince: since when a lock is held does not change by the signs of life of its session,
// and each lock of a session has its own.
func TestSince(t *testing.T) {
	t.Parallel()
	conn := database(t)
	l := open(t, pg.Options{Conn: conn})
	l.SetSilence(4 * silence) // a busy server may be silent for that of others
	outer := acquire(t, l, key())
	inner, err := l.Acquire(outer.Context(limited(t)), key())
	check(t, err)
	deadline := make(chan struct{})
	r := &recorder{}
	c, look := raw(t, conn), open(t, pg.Options{Conn: conn, Observe: r.Observe})
	beats := func() time.Time {
		return value[time.Time](t, c, "SELECT state_change FROM pg_stat_activity WHERE pid = $1", outer.Info().PID)
	}
	for n, last := 0, beats(); n < 2; n++ {
		eventually(t, "a sign of life", func() bool { return beats().After(last) })
		last = beats()
	}
	for _, e := range listed(t, look) {
		want := outer.Info().CreatedAt
		if e.Key == inner.(*pg.Hold).Key() {
			want = inner.Info().CreatedAt
		}
		if !e.Info.CreatedAt.Equal(want) {
			t.Errorf("%v is held since %v, want %v", e.Key, e.Info.CreatedAt, want)
		}
	}
	came := begin(look, onTime{limited(t), deadline}, outer.Key())
	eventually(t, "it is known who is in the way", func() bool { return r.count(lock.EventWaiting) == 1 })
	close(deadline)
	err = await(t, "the end of the wait", came).err
	locked := wantLocked(t, err, lock.ErrTimeout)
	if locked.Info == nil || !locked.Info.CreatedAt.Equal(outer.Info().CreatedAt) {
		t.Errorf("in the way is %+v, want since %v", locked.Info, outer.Info().CreatedAt)
	}
	advice := fmt.Sprintf("SELECT pg_terminate_backend(%d)", outer.Info().PID)
	for _, message := range []string{err.Error(), repolock.UserMessage(locked, "")} {
		if !strings.Contains(message, advice) || strings.Contains(message, "ps -p") || strings.Contains(message, "holdfast status") {
			t.Errorf("message for people: %s", message)
		}
	}
	check(t, inner.Release())
	check(t, outer.Release())
}

// TestListOfOthers: locks of other programs have their numbers for names; one that is
// in a prepared transaction is nobody's.
func TestListOfOthers(t *testing.T) {
	conn := database(t)
	l, c := open(t, pg.Options{Conn: conn}), raw(t, conn)
	exec1(t, c, "SELECT pg_advisory_lock(5), pg_advisory_lock(-6), pg_advisory_lock(1, -2)")
	want := []lock.Key{{Space: pg.Numbers, Name: "-6"}, {Space: pg.Numbers, Name: "5"}, {Space: pg.Numbers, Name: "1,-2"}}
	for _, prepared := range []bool{false, true} {
		if prepared {
			exec1(t, c, "BEGIN")
			exec1(t, c, "SELECT pg_advisory_xact_lock(7)")
			exec1(t, c, "PREPARE TRANSACTION 'nobody'")
			want = append(want, lock.Key{Space: pg.Numbers, Name: "7"})
		}
		for _, e := range listed(t, l) {
			if isNobodys := e.Key.Name == "7"; !slices.Contains(want, e.Key) || e.State != evidence.Held ||
				(e.Info == nil) != isNobodys || (e.Evidence == evidence.Prepared) != isNobodys {
				t.Errorf("listed: %+v, %+v", e, e.Info)
			}
		}
		equal(t, len(listed(t, l)), len(want), "are listed")
	}
	exec1(t, c, "ROLLBACK PREPARED 'nobody'")
}

// TestListOfThousand, with an end before the end, and others' work in between.
func TestListOfThousand(t *testing.T) {
	conn := database(t)
	l, c := open(t, pg.Options{Conn: conn + " pool_max_conns=2"}), raw(t, conn)
	exec1(t, c, "SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 1000) n")
	equal(t, len(listed(t, l)), 1000, "are listed")
	held := acquire(t, l, key())
	inner := must(l.Acquire(held.Context(limited(t)), key()))(t)
	for range 10 {
		for range l.List(limited(t)) {
			check(t, acquireNow(t, l, key()).Release()) // with the connection that the list had
			break
		}
	}
	check(t, inner.Release())
	check(t, held.Release())
	wantIdle(t, l)
}

// TestListOfUnprivileged: whoever may not see others' sessions sees the locks, and is told
// what helps.
func TestListOfUnprivileged(t *testing.T) {
	conn := database(t)
	l, k := open(t, pg.Options{Conn: conn}), key()
	c := raw(t, conn)
	role := role(t, c)
	mayLock(t, c, role)
	low := open(t, pg.Options{Conn: as(conn, role)})
	held := acquire(t, l, k)
	var entries []lock.Status
	var hidden error
	for e, err := range low.List(limited(t)) {
		if hidden = err; err == nil {
			entries = append(entries, e)
		}
	}
	if len(entries) != 1 || entries[0].Key != k || len(entries[0].Processes) != 1 || entries[0].Processes[0].PID != held.Info().PID {
		t.Errorf("listed: %+v", entries)
	}
	if s, err := low.Inspect(limited(t), k); err != nil || s.State != evidence.Held || s.Info != nil || len(s.Processes) != 1 {
		t.Errorf("inspected as %+v, %v; want the session, and no more", s, err)
	}
	if hidden == nil {
		t.Fatal("what is hidden is not told")
	}
	_, cure, _ := strings.Cut(hidden.Error(), "to see them: ")
	exec1(t, c, cure)
	if entries := listed(t, low); len(entries) != 1 || entries[0].Info.Cmd == "" {
		t.Errorf("listed: %+v", entries)
	}
	_, err := low.TryAcquire(limited(t), k)
	wantLocked(t, err)
	check(t, held.Release())
	check(t, lock.Do(limited(t), low, k, func(context.Context, lock.Hold) error { return nil }))
	check(t, lock.Do(limited(t), low, lock.Key{Space: "new", Name: fmt.Sprint(k)}, func(context.Context, lock.Hold) error { return nil }))
}
