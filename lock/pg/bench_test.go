package pg_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5"
)

// Each benchmark measures holdfast and, in turn with it, the calls alone that a lock can't do
// without. Its result is the ratio, "x-floor".

// inTurns compares the medians, as what else the machine does comes in bursts.

// orPanic is check, for goroutines.
func orPanic(err error) {
	if err != nil {
		panic(err)
	}
}

func inTurns(b *testing.B, floor, ours func()) {
	var oursTook, floorTook []time.Duration
	for b.Loop() {
		begin := time.Now()
		floor()
		middle := time.Now()
		ours()
		floorTook = append(floorTook, middle.Sub(begin))
		oursTook = append(oursTook, time.Since(middle))
	}
	median := func(took []time.Duration) float64 {
		slices.Sort(took)
		return float64(took[len(took)/2])
	}
	b.ReportMetric(0, "ns/op") // of both together: it says nothing
	b.ReportMetric(median(oursTook)/median(floorTook), "x-floor")
}

func openPG(b *testing.B, conn string) *pg.Locker {
	l := must(pg.Open(context.Background(), pg.Options{Conn: conn}))(b)
	b.Cleanup(l.Close)
	return l
}

// barePG is a session, and the two calls that a lock in it can't do without.
type barePG struct{ *pgx.Conn }

func openBare(b *testing.B, conn string) barePG {
	c := must(pgx.Connect(context.Background(), conn))(b)
	b.Cleanup(func() { check(b, c.Close(context.Background())) })
	return barePG{c}
}

const bareKey = int64(4711)

func (c barePG) lock() {
	_, err := c.Exec(context.Background(), "SELECT pg_advisory_lock($1)", bareKey)
	orPanic(err)
}

func (c barePG) unlock() {
	var had bool
	orPanic(c.QueryRow(context.Background(), "SELECT pg_advisory_unlock($1)", bareKey).Scan(&had))
}

// BenchmarkUncontended acquires and releases a lock that nobody else wants, and in
// turn with it makes the two calls alone on one connection. "x-floor" is the ratio.
func BenchmarkUncontended(b *testing.B) { links(b, uncontendedPG) }

func uncontendedPG(b *testing.B, conn string) {
	l, floor := openPG(b, conn), openBare(b, conn)
	k := lock.Key{Space: "bench", Name: "one"}
	bare := func() {
		floor.lock()
		floor.unlock()
	}
	ours := func() {
		held := must(l.Acquire(context.Background(), k))(b)
		check(b, held.Release())
	}
	bare()
	ours()
	inTurns(b, bare, ours)
}

// BenchmarkHandoff is the time from just before a release until just after the
// acquisition of another session, which waits in the server.
func BenchmarkHandoff(b *testing.B) { links(b, handoffPG) }

func handoffPG(b *testing.B, conn string) {
	l, other := openPG(b, conn), openPG(b, conn)
	one, two, look := openBare(b, conn), openBare(b, conn), openBare(b, conn)
	k := lock.Key{Space: "bench", Name: "handed"}
	waits := func() {
		for n := 0; n == 0; {
			check(b, look.QueryRow(context.Background(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&n))
		}
	}
	took := map[string]time.Duration{}
	measure := func(name string, release, acquire, releaseAgain func()) {
		had := make(chan time.Time)
		go func() {
			acquire()
			had <- time.Now()
		}()
		waits()
		begin := time.Now()
		release()
		took[name] += (<-had).Sub(begin)
		releaseAgain()
	}
	for b.Loop() {
		one.lock()
		measure("floor", one.unlock, two.lock, two.unlock)
		held := must(l.Acquire(context.Background(), k))(b)
		var next lock.Hold
		measure("holdfast", func() { orPanic(held.Release()) },
			func() {
				var err error
				next, err = other.Acquire(context.Background(), k)
				orPanic(err)
			},
			func() { orPanic(next.Release()) })
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took["holdfast"])/float64(took["floor"]), "x-floor")
}

// slow is a connection string for the same server by way of a link that adds a
// millisecond to each packet.
func slow(b *testing.B, conn string) string {
	config := must(pgx.ParseConfig(conn))(b)
	listener := must(net.Listen("unix", filepath.Join(b.TempDir(), ".s.PGSQL.5432")))(b)
	b.Cleanup(func() { _ = listener.Close() })
	pump := func(to, from net.Conn) {
		defer to.Close()
		for buf := make([]byte, 8192); ; {
			n, err := from.Read(buf)
			time.Sleep(time.Millisecond / 2) // each way
			if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(config.Host, ".s.PGSQL.5432"))
			if err != nil {
				_ = client.Close()
				continue
			}
			go pump(server, client)
			go pump(client, server)
		}
	}()
	return strings.Replace(conn, "host="+config.Host, "host="+filepath.Dir(listener.Addr().String()), 1)
}

// links runs a benchmark directly, and through a slow link.
func links(b *testing.B, run func(b *testing.B, conn string)) {
	conn := server.Conn()
	b.Run("direct", func(b *testing.B) { run(b, conn) })
	b.Run("1ms", func(b *testing.B) { run(b, slow(b, conn)) })
}

// BenchmarkMissedTry tries for a lock that another has, beside none and 5000 others.
func BenchmarkMissedTry(b *testing.B) {
	conn := server.Conn()
	l, floor, holder := openPG(b, conn), openBare(b, conn), openBare(b, conn)
	k := lock.Key{Space: "bench", Name: "missed"}
	other := openPG(b, conn)
	held := must(other.Acquire(context.Background(), k))(b)
	defer held.Release()
	holder.lock()
	for _, others := range []int{0, 5000} {
		_, err := holder.Exec(context.Background(), "SELECT count(pg_advisory_lock(n)) FROM generate_series(1000001, 1000000 + $1) n", others)
		check(b, err)
		b.Run(fmt.Sprint(others, "-others"), func(b *testing.B) {
			inTurns(b, func() {
				var had bool
				orPanic(floor.QueryRow(context.Background(), "SELECT pg_try_advisory_lock($1)", bareKey).Scan(&had))
			}, func() {
				if _, err := l.TryAcquire(context.Background(), k); err == nil {
					b.Fatal("acquired what another has")
				}
			})
		})
	}
}

// BenchmarkHundred has 100 goroutines take one lock, over 10 connections, or one each,
// over 100. The floor is as many goroutines with as many bare connections.
func BenchmarkHundred(b *testing.B) {
	for _, keys := range []int{1, 100} {
		b.Run(fmt.Sprint(keys, "-keys"), func(b *testing.B) {
			conn, conns := server.Conn(), max(10, keys)
			l := openPG(b, fmt.Sprint(conn, " pool_max_conns=", conns))
			var floors []barePG
			for range conns {
				floors = append(floors, openBare(b, conn))
			}
			ours := func() {
				var all sync.WaitGroup
				for n := range 100 {
					k := lock.Key{Space: "bench", Name: fmt.Sprint(n % keys)}
					all.Go(func() {
						for range 1000 / 100 {
							held, err := l.Acquire(context.Background(), k)
							orPanic(err)
							orPanic(held.Release())
						}
					})
				}
				all.Wait()
			}
			floor := func() {
				var all sync.WaitGroup
				for i, c := range floors {
					all.Go(func() {
						for range 1000 / conns {
							var had bool
							_, err := c.Exec(context.Background(), "SELECT pg_advisory_lock($1)", int64(i%keys))
							orPanic(err)
							orPanic(c.QueryRow(context.Background(), "SELECT pg_advisory_unlock($1)", int64(i%keys)).Scan(&had))
						}
					})
				}
				all.Wait()
			}
			ours() // makes the connections
			floor()
			inTurns(b, floor, ours)
		})
	}
}
