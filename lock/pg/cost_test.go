package pg_test

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// statements is a tracer that keeps what is sent on all connections of a Locker.
type statements struct {
	mu   sync.Mutex
	sent []string
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, data.SQL)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns what has been sent since the last time.
func (s *statements) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// traced opens a Locker whose statements are kept.
func traced(t testing.TB) (*pg.Locker, *statements) {
	t.Helper()
	config := must(pgxpool.ParseConfig(server.Conn()))(t)
	s := &statements{}
	config.ConnConfig.Tracer = s
	pool := must(pgxpool.NewWithConfig(limited(t), config))(t)
	t.Cleanup(pool.Close)
	return open(t, pg.Options{Pool: pool}), s
}

// wantSent checks that each statement matches the pattern in its place, and that there are
// no others.
func wantSent(t testing.TB, what string, sent []string, patterns ...string) {
	t.Helper()
	ok := len(sent) == len(patterns)
	for i := 0; ok && i < len(sent); i++ {
		ok = regexp.MustCompile(patterns[i]).MatchString(sent[i])
	}
	that(t, ok, "%s: sent is %q, want what matches %q", what, sent, patterns)
}

// TestMissedTryCost: it is one statement, which looks at none of the other locks that
// there are. Who wants to know more asks List, and who has waited is told without a look
// at them.
func TestMissedTryCost(t *testing.T) {
	l, s := traced(t)
	k := key()
	held := acquire(t, open(t, pg.Options{}), k)
	_, err := l.TryAcquire(limited(t), k)
	wantLocked(t, err)
	for _, sql := range s.take() { // the name is entered, and a connection made
		if regexp.MustCompile("pg_locks|pg_blocking_pids|pg_stat_activity|pg_lock_status").MatchString(sql) {
			t.Errorf("at first use of a name: sent is %q", sql)
		}
	}
	try, wait := `^SELECT pg_try_advisory_lock\(`, `^SELECT pg_advisory_lock\(`
	for what, c := range map[string]struct {
		try func() error
		sql string
	}{
		"TryAcquire":       {func() error { _, err := l.TryAcquire(limited(t), k); return err }, try},
		"TryAcquireShared": {func() error { _, err := l.TryAcquireShared(limited(t), k); return err }, `^SELECT pg_try_advisory_lock_shared\(`},
		"AcquireWithin 0":  {func() error { _, err := lock.AcquireWithin(limited(t), l, k, 0); return err }, try},
	} {
		locked := wantLocked(t, c.try())
		wantSent(t, what, s.take(), c.sql)
		if locked.Info != nil || locked.Advice == "" {
			t.Errorf("%s: in the way is %+v, with the advice %q; want nobody by name, and how to learn it", what, locked.Info, locked.Advice)
		}
	}
	acquired, err := lock.TryDo(limited(t), l, k, func(context.Context, lock.Hold) error { return nil })
	that(t, !acquired && err == nil, "TryDo: %v, %v", acquired, err)
	wantSent(t, "TryDo", s.take(), try)

	equal(t, len(waiting(t, l, k)), 0, "wait")
	wantSent(t, "List", s.take(), "FROM pg_locks")

	for wait := 50 * time.Millisecond; ; wait *= 4 { // on a busy machine a short one has no time to look
		s.take()
		_, err = lock.AcquireWithin(limited(t), l, k, wait)
		locked := wantLocked(t, err, lock.ErrTimeout)
		if locked.Info != nil && locked.Info.PID == held.Info().PID {
			break
		} else if locked.Info != nil || wait > patience/4 {
			t.Fatalf("in the way is %+v, want session %d", locked.Info, held.Info().PID)
		}
	}
	wantSent(t, "a wait that was given up", s.take(), wait, "pg_blocking_pids", "^SELECT pg_advisory_unlock")
	check(t, held.Release())
	check(t, lock.Do(limited(t), l, k, func(context.Context, lock.Hold) error { return nil }))
	wantSent(t, "an acquisition and a release", s.take(), wait, "^SELECT pg_advisory_unlock")
	wantIdle(t, l)
}
