package etcd_test

import (
	"context"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// peer is a lock of one client: ours, or that of etcd's own package.
type peer struct{ lock, unlock func() }

// peers are two clients of one lock of each kind.
func peers(b *testing.B) map[string][2]peer {
	ctx := context.Background()
	k := key()
	both := map[string][2]peer{}
	var ours, theirs [2]peer
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
		s, err := concurrency.NewSession(server.client(b), concurrency.WithTTL(10))
		check(b, err)
		b.Cleanup(func() { s.Close() })
		m := concurrency.NewMutex(s, "mutex/"+k.Name)
		theirs[i] = peer{func() { check(b, m.Lock(ctx)) }, func() { check(b, m.Unlock(ctx)) }}
	}
	both["holdfast"], both["concurrency.Mutex"] = ours, theirs
	return both
}

// BenchmarkAcquireRelease is of a lock that nobody else wants.
func BenchmarkAcquireRelease(b *testing.B) {
	for name, p := range peers(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p[0].lock()
				p[0].unlock()
			}
		})
	}
}

// BenchmarkHandOff is of a lock that goes to and fro between two who always want it: one
// turn of both.
func BenchmarkHandOff(b *testing.B) {
	for name, p := range peers(b) {
		b.Run(name, func(b *testing.B) {
			var all sync.WaitGroup
			for i := range p {
				all.Go(func() {
					for range b.N {
						p[i].lock()
						p[i].unlock()
					}
				})
			}
			all.Wait()
		})
	}
}
