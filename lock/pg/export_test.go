package pg

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/jackc/pgx/v5"
)

// What tests reach into. None of it may be called while the Locker is in use.

func (l *Locker) SetHash(hash func(lock.Key) int64) { l.hash = hash }

// FailGranted has every question fail that was granted a lock.
func (l *Locker) FailGranted(on bool) {
	l.failing = nil
	if on {
		l.failing = func(sql string) string {
			return "SELECT CASE WHEN got THEN 1 / (random() * 0)::integer = 1 ELSE false END FROM (" + sql + ") q (got)"
		}
	}
}

func (l *Locker) SetReleasePatience(d time.Duration) { l.patience = d }

// SetSilence is for tests that would take long.
func (l *Locker) SetSilence(d time.Duration) { l.silence = d }

// Trusted is how long after a sign of life a lock is counted on.
func (l *Locker) Trusted() time.Duration { return l.trusted() }

// OnCleaned is called after each failed call, with whether the lock had been granted.
func (l *Locker) OnCleaned(f func(had bool)) { l.cleaned = f }

// Stat counts connections: how many places are taken, how many lie idle, and how many have
// been made, the keeper's own left out.
func (l *Locker) Stat() (taken, idle, made int) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return len(l.pool.places), len(l.pool.idle), l.pool.made
}

// Taken is how many places are taken of each kind: what must be none in the end.
func (l *Locker) Taken() map[string]int {
	l.lines.mu.Lock()
	lines := len(l.lines.of)
	l.lines.mu.Unlock()
	l.keeper.mu.Lock()
	asking := len(l.keeper.asking)
	l.keeper.mu.Unlock()
	return map[string]int{"connections": len(l.pool.places), "asks": len(l.asks), "locks": len(l.budget), "lines": lines, "asking": asking}
}

// Idle gives the connection that would be used next.
func (l *Locker) Idle(ctx context.Context, fn func(*pgx.Conn)) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	fn(l.pool.idle[len(l.pool.idle)-1].conn)
}

// KeeperPID is that of the keeper's session.
func (l *Locker) KeeperPID() uint32 { return l.keeper.conn.PgConn().PID() }

// QueuedHere is how many goroutines stand in this process's line for a lock.
func (l *Locker) QueuedHere(key lock.Key) int {
	n, _ := l.number(key)
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	if line := l.lines.of[n]; line != nil {
		return len(line.queue)
	}
	return 0
}

// SameSession reports whether two holds are of one session.
func SameSession(a, b lock.Hold) bool { return a.(*Hold).session == b.(*Hold).session }

var Hash = hash

// Reap is what the pool's timer does once sessions have lain idle for so long. It is false if
// no timer runs, so that they would lie there for ever.
func (l *Locker) Reap(idleFor time.Duration) bool {
	p := l.pool
	p.mu.Lock()
	runs := p.reap != nil && p.reap.Stop()
	for _, s := range p.idle {
		s.heard = s.heard.Add(-idleFor)
	}
	p.mu.Unlock()
	if runs {
		p.reapIdle()
	}
	return runs
}

// IdleFor is how long a session of a Locker with a lease may lie idle.
func IdleFor(lease time.Duration) time.Duration {
	return (&pool{locker: &Locker{options: Options{Lease: lease}}}).idleFor()
}

// Asking is what the keeper knows of a session that asks for a lock.
type Asking struct {
	Sent, Heard time.Time
	Idle        bool
}

// Judge has the keeper of a Locker without a lease judge a session, once for each look. a is
// nil if it does not ask any more.
func Judge(a *Asking, seen, there, waiting bool, looked time.Time) (over bool, after Asking) {
	k := &keeper{locker: &Locker{silence: defaultSilence}, asking: map[*session]asking{}}
	s := &session{}
	if a != nil {
		k.asking[s] = asking{a.Sent, a.Heard, a.Idle}
	}
	over = k.judge(s, seen, there, waiting, looked)
	left := k.asking[s]
	return over, Asking{left.sent, left.heard, left.idle}
}

// Names is what a process remembers of names.
type Names struct{ names }

func NewNames() *Names {
	ns := new(Names)
	ns.init("holdfast")
	return ns
}

func (ns *Names) Remember(hash int64, key lock.Key, at time.Time) { ns.remember(hash, key, at) }
func (ns *Names) Known(hash int64) (lock.Key, bool)               { return ns.known(hash) }
func (ns *Names) Entered() int                                    { return len(ns.entered) }

const (
	RememberFor  = rememberFor
	RememberMost = rememberMost
)

// SinceNote is the note of a session that holds so many locks since a time.
func SinceNote(n int, at time.Time) string {
	s := &session{holds: map[*Hold]struct{}{}}
	for i := range n {
		s.holds[&Hold{number: number{hash: int64(i)}, since: at}] = struct{}{}
	}
	return s.sinceNote()
}

// NotedSince finds a lock of one number in a note.
func NotedSince(note string, hash int64) (time.Time, bool) {
	return notedSince(note, number{hash: hash})
}
