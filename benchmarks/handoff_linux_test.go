package benchmarks

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"golang.org/x/sys/unix"
)

// A locker takes a lock, waiting, and returns how to release it.
type locker func(path string) (release func())

var lockers = map[string]locker{
	"floor":    bareFlock,
	"calls":    bareCalls,
	"holdfast": holdfast,
}

func holdfast(path string) func() {
	held, err := lock.File{Path: path}.Acquire(context.Background())
	must(err)
	return func() { must(held.Release()) }
}

// bareFlock is open, flock, and close: what a wait can't do without.
func bareFlock(path string) func() {
	fd, err := unix.Open(path+".bare", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	must(err)
	must(unix.Flock(fd, unix.LOCK_EX))
	return func() { must(unix.Close(fd)) }
}

// bareCalls waits as bareFlock does, and makes the calls of the protocol.
func bareCalls(path string) func() { return bareProtocol(path+".calls", make([]byte, 300)) }

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// waiter waits for a lock each time it is told to, and says when it had it.
func waiter(args []string, orders *bufio.Scanner) {
	for orders.Scan() {
		release := lockers[args[0]](args[1])
		had := clock()
		release()
		fmt.Println(had)
	}
}

// holder takes a lock, says so, and keeps it.
func holder(args []string, orders *bufio.Scanner) {
	lockers[args[0]](args[1])
	fmt.Println()
	orders.Scan()
}

// BenchmarkHandoff is the time from just before a release in one process until
// just after the acquisition in another, which waits in the kernel. "x-floor-NAME"
// is the ratio of NAME's median to that of a bare flock(2), all taken in turn.
func BenchmarkHandoff(b *testing.B) {
	handoffs(b, []string{"floor", "calls", "holdfast"}, func(name, path string) func() {
		return lockers[name](path)
	})
}

// BenchmarkHandoffAfterKill is the time from SIGKILL for the holder until the
// acquisition in another process.
func BenchmarkHandoffAfterKill(b *testing.B) {
	handoffs(b, []string{"floor", "holdfast"}, func(name, path string) func() {
		victim := play(b, "holder", name, path)
		victim.answer()
		return func() { check(b, victim.cmd.Process.Kill()) }
	})
}

// handoffs measures from the moment in which a lock that hold took is given up, by
// what hold returned.
func handoffs(b *testing.B, names []string, hold func(name, path string) (giveUp func())) {
	folders(b, func(b *testing.B, dir string) {
		path := filepath.Join(dir, "lock")
		took := map[string][]int64{}
		waiters := map[string]*peer{}
		for _, name := range names {
			waiters[name] = play(b, "waiter", name, path)
		}
		for b.Loop() {
			for _, name := range names {
				giveUp := hold(name, path)
				waiters[name].order("")
				parked()
				begin := clock()
				giveUp()
				var had int64
				waiters[name].answer(&had)
				took[name] = append(took[name], had-begin)
			}
		}
		report(b, took)
	})
}

// parked gives the other process time to get to its wait: nobody tells when it is
// there.
func parked() { time.Sleep(3 * time.Millisecond) }

// folders runs a benchmark on the disk and on tmpfs.
func folders(b *testing.B, run func(b *testing.B, dir string)) {
	b.Run("tmp", func(b *testing.B) { run(b, b.TempDir()) })
	b.Run("shm", func(b *testing.B) { run(b, shm(b)) })
}

func report(b *testing.B, took map[string][]int64) {
	b.ReportMetric(0, "ns/op") // of all together: it says nothing
	for name, t := range took {
		slices.Sort(t)
		b.ReportMetric(float64(t[len(t)/2])/1e3, name+"-median-µs")
	}
	for name, t := range took {
		if name != "floor" {
			b.ReportMetric(median(t)/median(took["floor"]), "x-floor-"+name)
		}
	}
}

func median(sorted []int64) float64 { return float64(sorted[len(sorted)/2]) }
