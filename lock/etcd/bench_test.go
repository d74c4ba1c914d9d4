package etcd_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// peer is one client's way to a lock: ours, or that of etcd's own package.
type peer struct{ lock, unlock func() }

// peers are two clients of one lock of each kind.
func peers(b *testing.B) (ours, theirs [2]peer) {
	ctx, k := context.Background(), key()
	for i := range 2 {
		l := open(b, etcd.Options{})
		var held lock.Hold
		ours[i] = peer{
			func() {
				var err error
				held, err = l.Acquire(ctx, k)
				check(b, err)
			},
			func() { check(b, held.Release()) },
		}
		s := must(concurrency.NewSession(server.client(b), concurrency.WithTTL(10)))(b)
		b.Cleanup(func() { s.Close() })
		m := concurrency.NewMutex(s, "mutex/"+k.Name)
		theirs[i] = peer{func() { check(b, m.Lock(ctx)) }, func() { check(b, m.Unlock(ctx)) }}
	}
	return ours, theirs
}

// beside measures both in turn, so that what else the machine does meets both, and reports
// the medians, and how many times as long ours takes.
func beside(b *testing.B, each func(b *testing.B, p [2]peer) time.Duration) {
	ours, theirs := peers(b)
	var took [2][]time.Duration
	for i := 0; b.Loop(); i++ {
		for j := range 2 { // and none is always the first
			which := (i + j) % 2
			took[which] = append(took[which], each(b, [][2]peer{ours, theirs}[which]))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / 1e3
	}
	b.ReportMetric(median(took[0]), "holdfast-µs")
	b.ReportMetric(median(took[1]), "Mutex-µs")
	b.ReportMetric(median(took[0])/median(took[1]), "times")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAcquireRelease is of a lock that nobody else wants.
func BenchmarkAcquireRelease(b *testing.B) {
	beside(b, func(b *testing.B, p [2]peer) time.Duration {
		begun := time.Now()
		p[0].lock()
		p[0].unlock()
		return time.Since(begun)
	})
}

// BenchmarkHandOff is from the release to the one who has waited for it.
func BenchmarkHandOff(b *testing.B) {
	beside(b, func(b *testing.B, p [2]peer) time.Duration {
		p[0].lock()
		var all sync.WaitGroup
		var had time.Time
		all.Go(func() {
			p[1].lock()
			had = time.Now()
			p[1].unlock()
		})
		time.Sleep(20 * time.Millisecond) // it waits
		begun := time.Now()
		p[0].unlock()
		all.Wait()
		return had.Sub(begun)
	})
}

// BenchmarkToAndFro is of a lock that two want all the time: ten turns of both.
func BenchmarkToAndFro(b *testing.B) {
	beside(b, func(b *testing.B, p [2]peer) time.Duration {
		begun := time.Now()
		var all sync.WaitGroup
		for i := range p {
			all.Go(func() {
				for range 10 {
					p[i].lock()
					p[i].unlock()
				}
			})
		}
		all.Wait()
		return time.Since(begun)
	})
}
