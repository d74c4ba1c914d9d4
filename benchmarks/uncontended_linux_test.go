package benchmarks

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"golang.org/x/sys/unix"
)

// BenchmarkUncontended acquires and releases a lock that nobody else wants, and
// in turn with it makes the bare system calls of the same protocol. "x-floor" is
// the ratio of the two.
func BenchmarkUncontended(b *testing.B) {
	folders(b, func(b *testing.B, dir string) {
		f := lock.File{Path: filepath.Join(dir, "ours")}
		besideFloor(b, dir, f, func() {
			held, err := f.TryAcquire(context.Background())
			check(b, err)
			check(b, held.Release())
		})
	})
}

// besideFloor runs ours, which acquires and releases f, in turn with the bare
// system calls.
func besideFloor(b *testing.B, dir string, f lock.File, ours func()) {
	path, claim := filepath.Join(dir, "floor"), claimSize(b, f)
	inTurns(b, func() { bareProtocol(path, claim)() }, ours)
}

// inTurns reports what each takes, and their ratio.
func inTurns(b *testing.B, floor, ours func()) {
	var oursTook, floorTook time.Duration
	for b.Loop() {
		begin := time.Now()
		floor()
		middle := time.Now()
		ours()
		floorTook += middle.Sub(begin)
		oursTook += time.Since(middle)
	}
	b.ReportMetric(0, "ns/op") // of both together: it says nothing
	b.ReportMetric(float64(floorTook.Nanoseconds())/float64(b.N), "floor-ns/op")
	b.ReportMetric(float64(oursTook.Nanoseconds())/float64(b.N), "holdfast-ns/op")
	b.ReportMetric(float64(oursTook)/float64(floorTook), "x-floor")
}

// bareProtocol is the system calls of the protocol, and nothing else: what its two files
// cost, whoever locks them.
func bareProtocol(path string, claim []byte) (release func()) {
	var st unix.Stat_t
	sibling, err := unix.Open(path+".flock", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	must(err)
	must(unix.Flock(sibling, unix.LOCK_EX))
	must(unix.Fstat(sibling, &st)) // has it still a name?
	file, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600|unix.S_ISVTX)
	must(err)
	must(unix.Flock(file, unix.LOCK_EX|unix.LOCK_NB))
	must(unix.Fstat(file, &st)) // rule B
	must(unix.Lstat(path, &st))
	_, err = unix.Write(file, claim)
	must(err)
	if unix.Lstat(path+".reclaim", &st) == nil { // is there a marker?
		panic("a marker")
	}
	return func() {
		must(unix.Lstat(path, &st)) // rule B
		must(unix.Unlink(path))
		must(unix.Fstat(file, &st)) // has it another name?
		must(unix.Flock(file, unix.LOCK_UN))
		must(unix.Close(file))
		must(unix.Flock(sibling, unix.LOCK_UN))
		must(unix.Close(sibling))
	}
}

// claimSize returns as many bytes as a claim of ours has.
func claimSize(b *testing.B, f lock.File) []byte {
	held, err := f.TryAcquire(context.Background())
	check(b, err)
	var st unix.Stat_t
	check(b, unix.Stat(f.Path, &st))
	check(b, held.Release())
	return make([]byte, st.Size)
}

// shm returns a folder on tmpfs, where the filesystem itself costs least and our
// own work shows most.
func shm(b *testing.B) string {
	dir, err := os.MkdirTemp("/dev/shm", "holdfast")
	check(b, err)
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func check(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}
