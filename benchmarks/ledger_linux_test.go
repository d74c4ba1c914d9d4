package benchmarks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/ledger"
	"golang.org/x/sys/unix"
)

// event is of an ordinary size.
var event = []byte(`{"type":"node_created","timestamp":"2026-01-02T03:04:05Z","node_id":"1.2.3","owner":"prover-1"}`)

// BenchmarkLedger_Size appends to a ledger of a million events, in turn with one of a
// thousand. "x-thousand" is the ratio of the medians. "first-ms" is the first append
// of all to the million, when nothing says yet where its end is.
func BenchmarkLedger_Size(b *testing.B) {
	folders(b, func(b *testing.B, dir string) {
		thousand := populated(b, filepath.Join(dir, "thousand"), 1_000)
		million := populated(b, filepath.Join(dir, "million"), 1_000_000)
		first := []time.Duration{timed(b, thousand), timed(b, million)}[1]
		var small, large []int64
		for b.Loop() {
			small = append(small, timed(b, thousand).Nanoseconds())
			large = append(large, timed(b, million).Nanoseconds())
		}
		besides(b, "thousand", small, "million", large)
		b.ReportMetric(float64(first.Microseconds())/1e3, "first-ms")
	})
}

func timed(b *testing.B, l ledger.Ledger) time.Duration {
	begin := time.Now()
	_, err := l.Append(context.Background(), event)
	took := time.Since(begin)
	check(b, err)
	return took
}

// populated is a ledger with n events, most of them names of one file.
func populated(b *testing.B, dir string, n int) ledger.Ledger {
	const maxLinks = 60_000 // ext4 allows 65,000
	check(b, os.MkdirAll(filepath.Join(dir, "ledger"), 0o700))
	var file string
	for i := range n {
		path := filepath.Join(dir, "ledger", fmt.Sprintf("event-%06d.json", i+1))
		if i%maxLinks == 0 {
			file = path
			check(b, os.WriteFile(path, event, 0o600))
			continue
		}
		check(b, os.Link(file, path))
	}
	return ledger.Ledger{Dir: dir, NoSync: true}
}

// BenchmarkLedger_Sync appends an event for good, and in turn with it makes the bare
// system calls that this takes, without any lock. "x-floor" is the ratio of the
// medians. On tmpfs nothing is written to a disk, so there it is only told on the
// disk.
func BenchmarkLedger_Sync(b *testing.B) {
	dir := b.TempDir()
	l := ledger.Ledger{Dir: dir}
	bare := filepath.Join(dir, "bare")
	check(b, os.Mkdir(bare, 0o700))
	var floor, ours []int64
	for b.Loop() {
		temp, final := filepath.Join(bare, "temp"), filepath.Join(bare, fmt.Sprintf("event-%06d.json", len(floor)+1))
		begin := clock()
		bareAppend(b, bare, temp, final)
		floor = append(floor, clock()-begin)
		check(b, unix.Unlink(temp))
		ours = append(ours, timed(b, l).Nanoseconds())
	}
	besides(b, "floor", floor, "holdfast", ours)
}

// bareAppend is create, write, fsync, close, link, and fsync of the folder.
func bareAppend(b *testing.B, dir, temp, final string) {
	file, err := unix.Open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	check(b, err)
	_, err = unix.Write(file, event)
	check(b, err)
	check(b, unix.Fsync(file))
	check(b, unix.Close(file))
	check(b, unix.Link(temp, final))
	folder, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(b, err)
	check(b, unix.Fsync(folder))
	check(b, unix.Close(folder))
}

// besides reports the medians of two that were taken in turn, and their ratio.
func besides(b *testing.B, floorName string, floor []int64, name string, took []int64) {
	slices.Sort(floor)
	slices.Sort(took)
	b.ReportMetric(0, "ns/op") // of both together: it says nothing
	b.ReportMetric(median(floor)/1e3, floorName+"-median-µs")
	b.ReportMetric(median(took)/1e3, name+"-median-µs")
	b.ReportMetric(median(took)/median(floor), "x-"+floorName)
}
