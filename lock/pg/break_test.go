package pg_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
)

// TestEndSession: after saying how much ends with it, and only the one that was seen.
func TestEndSession(t *testing.T) {
	conn := database(t)
	l, k := open(t, pg.Options{Conn: conn, Cmd: "mine"}), key()
	held := acquire(t, l, k)
	inner := must(l.Acquire(held.Context(limited(t)), lock.Key{Space: pg.Numbers, Name: "-1,-2"}))(t)
	other := open(t, pg.Options{Conn: conn})
	for _, k := range []lock.Key{k, inner.(*pg.Hold).Key()} {
		sessions := must(other.Holders(limited(t), k))(t)
		if len(sessions) != 1 || sessions[0].PID != held.Info().PID || sessions[0].Locks != 2 || sessions[0].Cmd != "mine" || sessions[0].Started.IsZero() {
			t.Fatalf("holders: %+v", sessions)
		}
	}
	sessions := must(other.Holders(limited(t), k))(t)
	later := sessions[0]
	later.Started = later.Started.Add(time.Second)
	wantIs(t, other.EndSession(limited(t), later), pg.ErrGone)
	notYet(t, held.Lost(), "another session with its pid was ended")
	check(t, other.EndSession(limited(t), sessions[0]))
	await(t, "Lost", held.Lost())
	await(t, "Lost of the inner", inner.Lost())
	wantIs(t, other.EndSession(limited(t), sessions[0]), pg.ErrGone)
	if sessions, err := other.Holders(limited(t), k); len(sessions) != 0 || err != nil {
		t.Errorf("holders: %+v, %v; want none", sessions, err)
	}
	// Who may not, is told what helps.
	c := raw(t, conn)
	role := role(t, c)
	mayLock(t, c, role)
	low := open(t, pg.Options{Conn: as(conn, role)})
	again := acquire(t, other, k)
	sessions = must(low.Holders(limited(t), k))(t)
	if err := low.EndSession(limited(t), sessions[0]); err == nil || !strings.Contains(err.Error(), "GRANT pg_signal_backend TO") {
		t.Errorf("error is %v, want what helps", err)
	}
	check(t, again.Release())
}
