package benchmarks

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/holdfast-go/holdfast/lock"
)

// contenders are ways to wait for a lock that others want as much.
var contenders = map[string]locker{
	"holdfast": lockers["holdfast"],
	"flock":    gofrsLock,
	"poll10ms": gofrsPoll,
}

func gofrsLock(path string) func() {
	f := flock.New(path + ".gofrs")
	must(f.Lock())
	return func() { must(f.Unlock()) }
}

func gofrsPoll(path string) func() {
	f := flock.New(path + ".poll")
	_, err := f.TryLockContext(context.Background(), 10*time.Millisecond)
	must(err)
	return func() { must(f.Unlock()) }
}

const (
	contention = 3 * time.Second
	holdFor    = 2 * time.Millisecond
)

// worker takes and releases a lock, without pause, from one moment to another,
// and prints how often, and its p99 and longest wait in ns.
func worker(args []string, _ *bufio.Scanner) {
	acquire, path := contenders[args[0]], args[1]
	begin, err := strconv.ParseInt(args[2], 10, 64)
	must(err)
	time.Sleep(time.Duration(begin - clock()))
	var waits []int64
	for clock() < begin+int64(contention) {
		asked := clock()
		release := acquire(path)
		waits = append(waits, clock()-asked)
		time.Sleep(holdFor)
		release()
	}
	slices.Sort(waits)
	fmt.Println(len(waits), waits[len(waits)*99/100], waits[len(waits)-1])
}

// BenchmarkContention has processes take one lock without pause, holding it for
// 2 ms. "fewest" and "most" are acquisitions of a process; "p99-rounds" is the
// worst process's p99 wait in rounds of the queue, a round being the time in which
// everyone could have had a turn.
func BenchmarkContention(b *testing.B) {
	for _, n := range []int{2, 6, 24} {
		for name := range contenders {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				var counts, p99s, longest []int64
				for b.Loop() {
					counts, p99s, longest = contend(b, name, n)
				}
				total := int64(0)
				for _, c := range counts {
					total += c
				}
				round := float64(contention) / float64(total) * float64(n)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(total), "total")
				b.ReportMetric(float64(slices.Min(counts)), "fewest")
				b.ReportMetric(float64(slices.Max(counts)), "most")
				b.ReportMetric(float64(slices.Max(p99s))/1e6, "p99-ms")
				b.ReportMetric(float64(slices.Max(p99s))/round, "p99-rounds")
				b.ReportMetric(float64(slices.Max(longest))/1e6, "longest-ms")
			})
		}
	}
}

func contend(b *testing.B, name string, n int) (counts, p99s, longest []int64) {
	path := filepath.Join(b.TempDir(), "lock")
	begin := strconv.FormatInt(clock()+int64(500*time.Millisecond), 10)
	var workers []*peer
	for range n {
		workers = append(workers, play(b, "worker", name, path, begin))
	}
	for _, w := range workers {
		var count, p99, longestOne int64
		w.answer(&count, &p99, &longestOne)
		counts, p99s, longest = append(counts, count), append(p99s, p99), append(longest, longestOne)
		w.kill()
	}
	return counts, p99s, longest
}

// BenchmarkUncontendedAcquire is BenchmarkUncontended for Acquire, which passes
// the turnstile.
func BenchmarkUncontendedAcquire(b *testing.B) {
	folders(b, func(b *testing.B, dir string) {
		f := lock.File{Path: filepath.Join(dir, "ours")}
		besideFloor(b, dir, f, func() {
			held, err := f.Acquire(context.Background())
			check(b, err)
			check(b, held.Release())
		})
	})
}
