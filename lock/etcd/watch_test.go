package etcd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/etcd"
	"github.com/holdfast-go/holdfast/lock/evidence"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestWatchSaysNothing: a watch that is silent, and the news with it, delays the next one by
// a lease at most.
func TestWatchSaysNothing(t *testing.T) {
	t.Parallel()
	w, k := newWire(t, server), key()
	l, other := open(t, etcd.Options{Client: w.client, Lease: 2 * time.Second}), open(t, etcd.Options{})
	held := acquire(t, other, k)
	watched := make(chan struct{}, 100)
	silence := make(chan struct{})
	t.Cleanup(func() { close(silence) })
	w.set(func(w *wire) {
		w.came = func(method string, m any) {
			if method != "Watch" {
				return
			}
			if m.(*pb.WatchResponse).Created {
				watched <- struct{}{}
				return
			}
			<-silence
		}
	})
	came := begin(l, limited(t), k)
	await(t, "a watch", watched)
	check(t, held.Release())
	check(t, await(t, "the lock", came).mustHave(t).Release())
}

// TestCompacted: what was to be watched was forgotten before the watch began, with the news
// that the key has gone.
func TestCompacted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1) // compaction is everybody's
	w, k := newWire(t, c), key()
	l, other := open(t, etcd.Options{Client: w.client, Lease: time.Minute}), open(t, etcd.Options{Client: c.client(t)})
	held := acquire(t, other, k)
	asked, compacted := make(chan struct{}), make(chan struct{})
	first := true
	w.set(func(w *wire) {
		w.sent = func(method string, m any) {
			if method == "Watch" && m.(*pb.WatchRequest).GetCreateRequest() != nil && first {
				first = false
				close(asked)
				<-compacted
			}
		}
	})
	came := begin(l, limited(t), k)
	await(t, "a watch", asked)
	check(t, held.Release())
	answer := must(other.Client().Put(limited(t), "other", "key"))(t)
	check(t, errOf(other.Client().Compact(limited(t), answer.Header.Revision)))
	close(compacted)
	check(t, await(t, "the lock", came).mustHave(t).Release())
}

// TestWatchBeginsLate: what has gone before the watch began is found by a look, as a member
// takes its time to tell.
func TestWatchBeginsLate(t *testing.T) {
	t.Parallel()
	w, k := newWire(t, server), key()
	l, other := open(t, etcd.Options{Client: w.client, Lease: 2 * patience}), open(t, etcd.Options{})
	held := acquire(t, other, k)
	asked, released, silence := make(chan struct{}), make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(silence) })
	var once sync.Once
	w.set(func(w *wire) {
		w.sent = func(method string, m any) {
			if method == "Watch" && m.(*pb.WatchRequest).GetCreateRequest() != nil {
				once.Do(func() {
					close(asked)
					<-released
				})
			}
		}
		w.came = func(method string, m any) {
			if method == "Watch" && !m.(*pb.WatchResponse).Created {
				<-silence
			}
		}
	})
	came := begin(l, limited(t), k)
	await(t, "a watch", asked)
	check(t, held.Release())
	close(released)
	next := await(t, "the lock", came).mustHave(t)
	w.set(func(w *wire) { w.sent, w.came = nil, nil })
	check(t, next.Release())
}

// TestWatchesOnlyOneBefore: of ten who wait, a release wakes one.
func TestWatchesOnlyOneBefore(t *testing.T) {
	w, k := newWire(t, server), key()
	l, other := open(t, etcd.Options{Client: w.client}), open(t, etcd.Options{})
	held := acquire(t, other, k)
	var waits []<-chan outcome
	for i := range 10 {
		waits = append(waits, begin(l, limited(t), k))
		untilWaiting(t, l, k, i+1)
	}
	events := make(chan string, 100)
	w.set(func(w *wire) {
		w.came = func(method string, m any) {
			if method == "Watch" {
				for _, e := range m.(*pb.WatchResponse).Events {
					events <- string(e.Kv.Key)
				}
			}
		}
	})
	gone := held.Own()
	check(t, held.Release())
	for i, came := range waits { // and they come in their order
		next := await(t, "the lock", came).mustHave(t)
		equal(t, await(t, "an event", events), gone, i)
		select {
		case further := <-events:
			t.Errorf("%d: %s is watched, too", i, further)
		default:
		}
		gone = next.Own()
		check(t, next.Release())
	}
}

// TestToken: locks are had as a user who has a right to the prefix and no other, by tokens
// that expire after three seconds.
func TestToken(t *testing.T) {
	t.Parallel()
	c := guarded(t)
	admin, k := c.root(t), key()
	l := must(openAt(limited(t), "8s "+c.address()))(t)
	t.Cleanup(func() { check(t, l.(own).Close()) })
	other, err := openAt(limited(t), "8s "+c.address())
	check(t, err)
	t.Cleanup(func() { check(t, other.(own).Close()) })
	held := acquire(t, l, k)
	came := begin(other, limited(t), k)
	untilWaiting(t, l, k, 1)
	for begun := time.Now(); time.Since(begun) < 6*time.Second; { // several tokens, and more time for the lease
		select {
		case <-held.Lost():
			t.Fatal("lost: ", context.Cause(held.Context(context.Background())))
		case <-time.After(50 * time.Millisecond):
		}
	}
	check(t, held.Release())
	check(t, await(t, "the lock", came).mustHave(t).Release())
	wantNoKeys(t, admin, folder(k))

	_, err = etcd.Open(limited(t), etcd.Options{Client: l.(own).client, Prefix: "elsewhere/"})
	that(t, err != nil, "opened where the user may not write")
}

func TestList(t *testing.T) {
	l := open(t, etcd.Options{Prefix: "list/"})
	admin := server.client(t)
	check(t, errOf(admin.Put(limited(t), "list/locks/not-ours", "x")))
	check(t, errOf(admin.Put(limited(t), "list/locks/space/name/w/by-hand", "no claim")))
	k := key()
	readers := 0
	reader := must(l.AcquireShared(limited(t), k))(t)
	writer := begin(l, limited(t), k)
	listed := func() (granted, waiting int, foreign bool) {
		for e, err := range l.List(limited(t)) {
			check(t, err)
			if e.Key == k {
				granted, waiting = len(e.Processes), len(e.Waiters)
			} else {
				foreign = e.Key.Name == "name" && e.State == evidence.Held && e.Info == nil
			}
		}
		return
	}
	eventually(t, "one has it, one waits", func() bool {
		granted, waiting, foreign := listed()
		return granted == 1 && waiting == 1 && foreign
	})
	readers++
	late := make(chan outcome, 1)
	go func() {
		held, err := l.AcquireShared(limited(t), k)
		late <- outcome{held, err}
	}()
	eventually(t, "a reader waits behind the writer", func() bool {
		granted, waiting, _ := listed()
		return granted == readers && waiting == 2
	})
	check(t, reader.Release())
	check(t, await(t, "the lock", writer).mustHave(t).Release())
	o := await(t, "the lock", late)
	check(t, o.err)
	check(t, o.held.Release())
	check(t, errOf(admin.Delete(limited(t), "list/", clientv3.WithPrefix())))
}
