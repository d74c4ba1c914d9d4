package pg_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// server is the one that most tests share.
var server *pgtest.Server

func TestMain(m *testing.M) {
	locktest.Main(openAt)
	testkit.Play(func(_ string, args []string) { holder(args[0], args[1], bufio.NewScanner(os.Stdin)) })
	os.Exit(run(m))
}

var (
	check  = testkit.Check
	that   = testkit.That
	notYet = testkit.NotYet
	errOf  = testkit.ErrOf
	noErr  = testkit.NoErr
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

// TestServerIsThere stands for all that can't run without one.
func TestServerIsThere(t *testing.T) {
	if server == nil {
		t.Skip("needs PostgreSQL's server, for every test of this package")
	}
}

func run(m *testing.M) int {
	var err error
	server, err = pgtest.Start("max_connections=400", "deadlock_timeout=50ms", "max_prepared_transactions=5", "max_locks_per_transaction=128")
	if errors.Is(err, pgtest.ErrMissing) {
		flag.Parse()
		_ = flag.Set("test.run", "^TestServerIsThere$") // the others can't run
		return m.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	code := testkit.Run(m)
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: stop:", err)
		return 1
	}
	return code
}

// patience bounds what must not hang.
const patience = 30 * time.Second

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience+stormTakes())
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, o pg.Options) *pg.Locker {
	t.Helper()
	if o.Conn == "" && o.Pool == nil {
		o.Conn = server.Conn()
	}
	l := must(pg.Open(limited(t), o))(t)
	t.Cleanup(func() {
		if t.Failed() {
			go l.Close() // which may wait for ever
			return
		}
		l.Close()
	})
	return l
}

// raw is a connection that knows nothing of holdfast.
func raw(t testing.TB, conn string) *pgx.Conn {
	t.Helper()
	c := must(pgx.Connect(limited(t), conn))(t)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func exec1(t testing.TB, c interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, sql string, args ...any) {
	t.Helper()
	check(t, errOf(c.Exec(limited(t), sql, args...)))
}

func value[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	check(t, c.QueryRow(limited(t), sql, args...).Scan(&v))
	return v
}

// database makes one of a test's own, in which there is nothing yet.
func database(t testing.TB) (conn string) {
	t.Helper()
	name := fmt.Sprint("d", rand.Uint64())
	exec1(t, raw(t, server.Conn()), "CREATE DATABASE "+name)
	return strings.Replace(server.Conn(), "dbname=postgres", "dbname="+name, 1)
}

var lastKey atomic.Int64

// key returns one that nobody has used.
func key() lock.Key {
	return lock.Key{Space: "test", Name: fmt.Sprint(os.Getpid(), "-", lastKey.Add(1))}
}

func acquire(t testing.TB, l lock.Locker, k lock.Key) *pg.Hold {
	t.Helper()
	held := must(l.Acquire(limited(t), k))(t)
	t.Cleanup(func() { _ = held.Release() })
	return held.(*pg.Hold)
}

// eventually looks again until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for ctx := limited(t); !cond(); time.Sleep(2 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("never happened: ", what)
		}
	}
}

// await waits for a channel.
func await[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("never happened: ", what)
	}
	return v
}

// advisory counts the advisory locks of the server, granted or waited for.
func advisory(t testing.TB, c *pgx.Conn, granted bool) int {
	t.Helper()
	return value[int](t, c, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted = $1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, granted)
}

// wantIdle checks that a Locker has all its connections back, and holds nothing.
func wantIdle(t testing.TB, l *pg.Locker) {
	t.Helper()
	taken := l.Taken()
	for deadline := time.Now().Add(patience); slices.Max(slices.Collect(maps.Values(taken))) > 0; taken = l.Taken() {
		if time.Sleep(2 * time.Millisecond); time.Now().After(deadline) {
			t.Fatalf("still taken: %v", taken)
		}
	}
}

// start starts another process, which holds.
func start(t testing.TB, conn string, lease time.Duration) *testkit.Child {
	t.Helper()
	return startBy(t, nil, conn, lease)
}

// startBy is start, by way of a command that starts another.
func startBy(t testing.TB, by []string, conn string, lease time.Duration) *testkit.Child {
	t.Helper()
	cmd := testkit.Command(t, "holder", conn, lease.String())
	if len(by) > 0 {
		args := slices.Concat(by[1:], []string{cmd.Path}, cmd.Args[1:])
		env := cmd.Env
		cmd = exec.Command(by[0], args...)
		cmd.Env, cmd.Stderr = env, os.Stderr
	}
	return testkit.StartCommand(t, cmd)
}

// holder acquires and releases one lock as it is told, and says when it is lost.
func holder(conn, lease string, orders *bufio.Scanner) {
	ctx := context.Background()
	span, _ := time.ParseDuration(lease)
	l, err := pg.Open(ctx, pg.Options{Conn: conn, Cmd: "child", Lease: span})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	var held lock.Hold
	for orders.Scan() {
		order, name, _ := strings.Cut(orders.Text(), " ")
		switch order {
		case "acquire":
			if held, err = l.Acquire(ctx, lock.Key{Space: "test", Name: name}); err != nil {
				fmt.Println("error:", err)
				continue
			}
			go func() {
				<-held.Lost()
				fmt.Println("lost")
			}()
			fmt.Println("held")
		case "fence":
			fmt.Println(held.Fence())
		case "release":
			fmt.Println("released:", held.Release())
		}
	}
}
