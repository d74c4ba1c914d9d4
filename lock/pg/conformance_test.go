package pg_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
	"github.com/holdfast-go/holdfast/lock/pg"
)

// numericPrefix marks the address of locks whose space is registered, and leasedPrefix
// of those with a lease.
const (
	numericPrefix = "numeric "
	leasedPrefix  = "leased "
	numericSpace  = "locktest-numbers"
)

func openAt(ctx context.Context, address string) (lock.Locker, error) {
	conn, numeric := strings.CutPrefix(address, numericPrefix)
	conn, leased := strings.CutPrefix(conn, leasedPrefix)
	o := pg.Options{Conn: conn}
	if leased {
		o.Lease = time.Minute
	}
	l, err := pg.Open(ctx, o)
	if err != nil || !numeric {
		return l, err
	}
	return l, l.Register(ctx, numericSpace, -7)
}

func engine() locktest.Engine {
	return locktest.Engine{
		Address: func(*testing.T) string { return server.Conn() },
		OpenAt:  openAt,
		Lose: func(t *testing.T, _ string, _ lock.Key, held lock.Hold) {
			terminate(t, server.Conn(), held)
		},
		NoticesLoss: true,
		Patience:    patience,
	}
}

// terminate ends the session of a hold, as an administrator would, and returns when it
// is gone.
func terminate(t testing.TB, conn string, held lock.Hold) {
	t.Helper()
	c := raw(t, conn)
	defer c.Close(context.Background())
	if !value[bool](t, c, "SELECT pg_terminate_backend($1)", held.Info().PID) {
		t.Fatalf("there is no session %d", held.Info().PID)
	}
	eventually(t, "the session is gone", func() bool {
		return value[int](t, c, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", held.Info().PID) == 0
	})
}

func TestConformance(t *testing.T) { locktest.Run(t, engine()) }

// TestConformanceOfNumericSpace is of the form of two numbers of 32 bits, which differs in how a
// key becomes a number: half of all runs do without.
func TestConformanceOfNumericSpace(t *testing.T) {
	if !testkit.Sample(2) {
		t.Skip("left out by chance: HOLDFAST_TEST_COMPLETE has it run always")
	}
	e := engine()
	e.Address = func(*testing.T) string { return numericPrefix + server.Conn() }
	e.Key = func(n int) lock.Key { return lock.Key{Space: numericSpace, Name: fmt.Sprint(n)} }
	locktest.Run(t, e)
}

// TestConformanceWithLease is of sessions that the server ends when they are silent, a setting of
// theirs: half of all runs do without.
func TestConformanceWithLease(t *testing.T) {
	if !testkit.Sample(2) {
		t.Skip("left out by chance: HOLDFAST_TEST_COMPLETE has it run always")
	}
	e := engine()
	e.Address = func(*testing.T) string { return leasedPrefix + server.Conn() }
	locktest.Run(t, e)
}
