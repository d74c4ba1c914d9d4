package etcd_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
)

type acquirer = func(context.Context, lock.Key) (lock.Hold, error)

// ways are all means to acquire a lock that is free.
func ways(l *etcd.Locker) map[string]acquirer {
	return map[string]acquirer{"Acquire": l.Acquire, "TryAcquire": l.TryAcquire, "AcquireShared": l.AcquireShared, "TryAcquireShared": l.TryAcquireShared}
}

// TestAnswerLost: the key was put, and nobody said so. It is found, and there is no second.
func TestAnswerLost(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	admin := server.client(t)
	for name, acquire := range ways(l) {
		k := key()
		w.loseAnswer("Txn")
		held, err := acquire(limited(t), k)
		check(t, err, name)
		if n := count(t, admin, folder(k)); n != 1 {
			t.Errorf("%s: %d keys, want one", name, n)
		}
		answer := must(admin.Get(limited(t), held.(*etcd.Hold).Own()))(t)
		if len(answer.Kvs) != 1 || answer.Kvs[0].CreateRevision != held.(*etcd.Hold).Created() {
			t.Errorf("%s: it is thought to have been created at %d, and is %+v", name, held.(*etcd.Hold).Created(), answer.Kvs)
		}
		check(t, held.Release())
		wantNoKeys(t, admin, folder(k))
	}
}

// TestRequestLate: a request that was given up arrives after its successor, or after nobody
// wants the lock any more. It does nothing.
func TestRequestLate(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	admin := server.client(t)
	for name, acquire := range ways(l) {
		k := key()
		late, arrive := w.delay("Txn", true)
		held, err := acquire(limited(t), k)
		check(t, err, name)
		await(t, "the request", late)
		check(t, held.Release())
		check(t, arrive())
		wantNoKeys(t, admin, folder(k))
		held, err = acquire(limited(t), k) // nobody's key is in the way
		check(t, err)
		check(t, held.Release())
	}
}

// TestRequestLateAndCancelled: who is cancelled while nothing is known of their request
// leaves at once, and leaves no key, whenever it arrives.
func TestRequestLateAndCancelled(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	admin := server.client(t)
	for name, acquire := range ways(l) {
		k := key()
		late, arrive := w.delay("Txn", false)
		ctx, cancel := context.WithCancel(limited(t))
		came := make(chan outcome, 1)
		go func() {
			held, err := acquire(ctx, k)
			came <- outcome{held, err}
		}()
		await(t, "the request", late)
		cancel()
		o := await(t, "the end", came)
		that(t, o.held == nil, "%s: a hold", name)
		wantIs(t, o.err, context.Canceled)
		check(t, arrive())
		eventually(t, "the key is deleted", func() bool { return count(t, admin, folder(k)) == 0 })
	}
	self := "holdfast/lockers/" + idOf(l)
	l.Close() // waits for what is still to be done
	wantNoKeys(t, admin, self)
}

// TestRequestLateAndLocked: so it is with a lock that another has, and they are told who.
func TestRequestLateAndLocked(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	k := key()
	held := acquire(t, open(t, etcd.Options{Cmd: "other"}), k)
	late, arrive := w.delay("Txn", false)
	ctx, cancel := context.WithCancel(limited(t))
	came := begin(l, ctx, k)
	await(t, "the request", late)
	cancel()
	err := await(t, "the end", came).err
	wantIs(t, err, context.Canceled)
	var locked *lock.LockedError
	if !errors.As(err, &locked) || locked.Info == nil || locked.Info.Cmd != "other" {
		t.Errorf("error is %v, want to be told who has it", err)
	}
	check(t, arrive())
	check(t, held.Release())
}

// TestNeverAnswered: a cluster that says nothing ends a wait, with an error that is nobody's
// cancelling.
func TestNeverAnswered(t *testing.T) {
	t.Parallel()
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client, Lease: patience}) // which is not lost meanwhile
	l.AskAsWith(time.Second)
	w.set(func(w *wire) {
		w.unary = func(ctx context.Context, method string, r request) error {
			if method != "Txn" {
				return r.send(ctx)
			}
			<-ctx.Done()
			return ctx.Err()
		}
	})
	_, err := l.Acquire(limited(t), key())
	that(t, err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, lock.ErrTimeout), "error is %v", err)
	w.set(func(w *wire) { w.unary = nil })
}

// TestSlowCluster: a cluster that answers late, or for longer than a short lease not at all,
// does not end an acquisition.
func TestSlowCluster(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client, Lease: patience}) // which is not lost meanwhile
	l.AskAsWith(lease)
	var lost atomic.Int64
	for name, what := range map[string]func(ctx context.Context, r request) error{
		"late": func(ctx context.Context, r request) error {
			select {
			case <-time.After(lease * 6 / 10):
				return r.send(ctx)
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		"not at all": func(ctx context.Context, r request) error {
			if lost.Add(1) < 12 { // it pauses longer each time
				return errLostOnTheWire
			}
			return r.send(ctx)
		},
	} {
		w.set(func(w *wire) {
			w.unary = func(ctx context.Context, method string, r request) error {
				if method != "Txn" {
					return r.send(ctx)
				}
				return what(ctx, r)
			}
		})
		held, err := l.Acquire(limited(t), key())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w.set(func(w *wire) { w.unary = nil })
		check(t, held.Release())
	}
	w.set(func(w *wire) { w.unary = nil })
}

// TestAnswerToTryLost: another's lock is not taken for ours.
func TestAnswerToTryLost(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	k := key()
	held := acquire(t, open(t, etcd.Options{Cmd: "other"}), k)
	w.loseAnswer("Txn")
	_, err := l.TryAcquire(limited(t), k)
	var locked *lock.LockedError
	if !errors.As(err, &locked) || locked.Info == nil || locked.Info.Cmd != "other" {
		t.Errorf("error is %v, want to be told who has it", err)
	}
	check(t, held.Release())
}

// TestAnswerToReleaseLost: it is asked again, and is no loss.
func TestAnswerToReleaseLost(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	k := key()
	held := acquire(t, l, k)
	w.loseAnswer("DeleteRange")
	check(t, held.Release())
	wantNoKeys(t, server.client(t), folder(k))
}

// TestReleaseLate: a release that was repeated arrives when somebody else of the same Locker
// has the lock, and harms nobody.
func TestReleaseLate(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	k := key()
	first := acquire(t, l, k)
	late, arrive := w.delay("DeleteRange", true)
	check(t, first.Release())
	await(t, "the release", late)
	second := acquire(t, l, k)
	check(t, arrive())
	equal(t, count(t, server.client(t), second.Own()), 1, "the key of the second hold has gone")
	check(t, second.Release())
}

// TestReleaseLateInBackground: so it is if the release had to be completed when its caller
// had gone.
func TestReleaseLateInBackground(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	l.SetReleasePatience(time.Millisecond)
	k := key()
	first := acquire(t, l, k)
	late, arrive := w.delay("DeleteRange", false)
	wantIs(t, first.Release(), lock.ErrLost)
	await(t, "the release", late)
	admin := server.client(t)
	eventually(t, "the release is completed", func() bool { return count(t, admin, folder(k)) == 0 })
	second := acquire(t, l, k)
	check(t, arrive())
	equal(t, count(t, admin, second.Own()), 1, "the key of the second hold has gone")
	l.SetReleasePatience(patience)
	check(t, second.Release())
}

// TestRequests: a lock that nobody else wants costs one request, and its release another.
func TestRequests(t *testing.T) {
	w := newWire(t, server)
	l, k := open(t, etcd.Options{Client: w.client}), key()
	var asked []string
	w.set(func(w *wire) {
		w.unary = func(ctx context.Context, method string, r request) error {
			asked = append(asked, method)
			return r.send(ctx)
		}
	})
	check(t, acquire(t, l, k).Release())
	if want := []string{"Txn", "DeleteRange"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

// TestFewNames: a lock that is often had leaves one name in the cluster's index.
func TestFewNames(t *testing.T) {
	l, k := open(t, etcd.Options{}), key()
	names := map[string]bool{}
	for range 10 {
		held := acquire(t, l, k)
		names[held.Own()] = true
		check(t, held.Release())
	}
	equal(t, len(names), 1, "names:", names)
}

// TestAnswerToEpochLost: the epoch of the Locker is another than it knows.
func TestAnswerToEpochLost(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	admin := server.client(t)
	check(t, errOf(admin.Put(limited(t), "holdfast/lockers/"+idOf(l), "by hand")))
	check(t, acquire(t, l, key()).Release())
	check(t, errOf(admin.Delete(limited(t), "holdfast/lockers/"+idOf(l))))
	w.loseAnswer("Put")
	check(t, acquire(t, l, key()).Release())
}

// TestReleaseUnconfirmed: the error says that it can't be told, and the key goes as soon as
// the cluster can be asked again.
func TestReleaseUnconfirmed(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client})
	l.SetReleasePatience(1)
	k := key()
	held := acquire(t, l, k)
	ctx := held.Context(context.Background())
	var cut bool
	w.set(func(w *wire) {
		w.unary = func(ctx context.Context, _ string, r request) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if cut {
				return errLostOnTheWire
			}
			return r.send(ctx)
		}
		cut = true
	})
	wantIs(t, held.Release(), lock.ErrLost)
	wantIs(t, context.Cause(ctx), lock.ErrLost)
	check(t, held.Release())
	admin := server.client(t)
	equal(t, count(t, admin, folder(k)), 1, "keys, while nobody can delete it")
	w.set(func(*wire) { cut = false })
	eventually(t, "the key is deleted", func() bool { return count(t, admin, folder(k)) == 0 })
}
