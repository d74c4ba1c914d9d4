package benchmarks

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	"github.com/jackc/pgx/v5"
)

// postgres starts a server, which ends with the benchmark.
func postgres(b *testing.B) (conn string) {
	server, err := pgtest.Start()
	check(b, err)
	b.Cleanup(func() { check(b, server.Stop()) })
	return server.Conn()
}

func openPG(b *testing.B, conn string) *pg.Locker {
	l, err := pg.Open(context.Background(), pg.Options{Conn: conn})
	check(b, err)
	b.Cleanup(l.Close)
	return l
}

// barePG is a session, and the two calls that a lock in it can't do without.
type barePG struct{ *pgx.Conn }

func openBare(b *testing.B, conn string) barePG {
	c, err := pgx.Connect(context.Background(), conn)
	check(b, err)
	b.Cleanup(func() { check(b, c.Close(context.Background())) })
	return barePG{c}
}

const bareKey = int64(4711)

func (c barePG) lock() {
	_, err := c.Exec(context.Background(), "SELECT pg_advisory_lock($1)", bareKey)
	must(err)
}

func (c barePG) unlock() {
	var had bool
	must(c.QueryRow(context.Background(), "SELECT pg_advisory_unlock($1)", bareKey).Scan(&had))
}

// BenchmarkPGUncontended acquires and releases a lock that nobody else wants, and in
// turn with it makes the two calls alone on one connection. "x-floor" is the ratio.
func BenchmarkPGUncontended(b *testing.B) {
	conn := postgres(b)
	l, floor := openPG(b, conn), openBare(b, conn)
	k := lock.Key{Space: "bench", Name: "one"}
	bare := func() {
		floor.lock()
		floor.unlock()
	}
	ours := func() {
		held, err := l.Acquire(context.Background(), k)
		check(b, err)
		check(b, held.Release())
	}
	bare()
	ours()
	inTurns(b, bare, ours)
}

// BenchmarkPGHandoff is the time from just before a release until just after the
// acquisition of another session, which waits in the server.
func BenchmarkPGHandoff(b *testing.B) {
	conn := postgres(b)
	l, other := openPG(b, conn), openPG(b, conn)
	one, two, look := openBare(b, conn), openBare(b, conn), openBare(b, conn)
	k := lock.Key{Space: "bench", Name: "handed"}
	waits := func() {
		for n := 0; n == 0; {
			check(b, look.QueryRow(context.Background(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&n))
		}
	}
	took := map[string][]int64{}
	measure := func(name string, release, acquire, releaseAgain func()) {
		had := make(chan int64)
		go func() {
			acquire()
			had <- clock()
		}()
		waits()
		begin := clock()
		release()
		took[name] = append(took[name], <-had-begin)
		releaseAgain()
	}
	for b.Loop() {
		one.lock()
		measure("floor", one.unlock, two.lock, two.unlock)
		held, err := l.Acquire(context.Background(), k)
		check(b, err)
		var next lock.Hold
		measure("holdfast", func() { must(held.Release()) },
			func() {
				var err error
				next, err = other.Acquire(context.Background(), k)
				must(err)
			},
			func() { must(next.Release()) })
	}
	report(b, took)
}

// BenchmarkPGHundred has 100 goroutines take one lock, or one each, over 10
// connections. The floor is as many calls over 10 bare connections, by 10 goroutines.
func BenchmarkPGHundred(b *testing.B) {
	for _, keys := range []int{1, 100} {
		b.Run(fmt.Sprint(keys, "-keys"), func(b *testing.B) {
			conn := postgres(b)
			l := openPG(b, conn+" pool_max_conns=10")
			var floors []barePG
			for range 10 {
				floors = append(floors, openBare(b, conn))
			}
			var oursTook, floorTook time.Duration
			for b.Loop() {
				begin := time.Now()
				var all sync.WaitGroup
				for i, c := range floors {
					all.Go(func() {
						for n := range 10 {
							key := int64((i*10 + n) % keys)
							_, err := c.Exec(context.Background(), "SELECT pg_advisory_lock($1)", key)
							must(err)
							_, err = c.Exec(context.Background(), "SELECT pg_advisory_unlock($1)", key)
							must(err)
						}
					})
				}
				all.Wait()
				middle := time.Now()
				for n := range 100 {
					all.Go(func() {
						held, err := l.Acquire(context.Background(), lock.Key{Space: "bench", Name: fmt.Sprint(n % keys)})
						must(err)
						must(held.Release())
					})
				}
				all.Wait()
				floorTook += middle.Sub(begin)
				oursTook += time.Since(middle)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(floorTook.Nanoseconds())/float64(b.N)/100, "floor-ns/lock")
			b.ReportMetric(float64(oursTook.Nanoseconds())/float64(b.N)/100, "holdfast-ns/lock")
			b.ReportMetric(float64(oursTook)/float64(floorTook), "x-floor")
		})
	}
}
