package etcd_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLongestNames: a space and a name of as many bytes as are allowed, and of one more.
func TestLongestNames(t *testing.T) {
	l, long := open(t, etcd.Options{}), strings.Repeat("n", 1024)
	check(t, acquire(t, l, lock.Key{Space: long, Name: long}).Release())
	for _, k := range []lock.Key{{Space: long + "n", Name: "a"}, {Space: "a", Name: long + "n"}, {Name: "a"}, {Space: "a"}} {
		_, err := l.TryAcquire(limited(t), k)
		wantIs(t, err, lock.ErrInvalidName)
	}
}

// TestLeaseIsRoundedUp: the cluster keeps a lease for whole seconds, and for no less than was
// asked for.
func TestLeaseIsRoundedUp(t *testing.T) {
	l := open(t, etcd.Options{Lease: 2500 * time.Millisecond})
	answer := must(server.client(t).TimeToLive(limited(t), clientv3.LeaseID(l.LeaseID())))(t)
	that(t, answer.GrantedTTL >= 3, "%d seconds", answer.GrantedTTL)
}

// TestHoldsForgotten: a lease does not keep what is held no more.
func TestHoldsForgotten(t *testing.T) {
	l := open(t, etcd.Options{})
	one, two := acquire(t, l, key()), acquire(t, l, key())
	check(t, one.Release())
	equal(t, l.Holds(), 1, "of one hold it has")
	check(t, two.Release())
	equal(t, l.Holds(), 0, "of none it has")
}

// TestRevokedIsNotRevoked: who hears that the lease has gone does not ask for its end.
func TestRevokedIsNotRevoked(t *testing.T) {
	w := newWire(t, server)
	l := open(t, etcd.Options{Client: w.client, Lease: time.Second})
	held := acquire(t, l, key())
	var asked atomic.Bool
	w.set(func(w *wire) {
		w.unary = func(ctx context.Context, method string, r request) error {
			if method == "LeaseRevoke" {
				asked.Store(true)
			}
			return r.send(ctx)
		}
	})
	check(t, errOf(server.client(t).Revoke(limited(t), clientv3.LeaseID(l.LeaseID()))))
	await(t, "Lost", held.Lost())
	wantIs(t, held.Release(), lock.ErrLost)
	eventually(t, "it hears that the lease has gone", l.LeaseLost)
	l.Close() // which waits for what is still asked
	that(t, !asked.Load(), "the lease was revoked once more")
}

// TestEpochGrows: an answer that is late does not set it back.
func TestEpochGrows(t *testing.T) {
	equal(t, etcd.Epoch(3, 7, 5), 7, "after 3, 7 and 5 it")
}

// TestDefinite: after which errors a request is not sent again.
func TestDefinite(t *testing.T) {
	for err, want := range map[error]bool{
		rpctypes.ErrPermissionDenied: true,
		rpctypes.ErrLeaseNotFound:    true,
		rpctypes.ErrGRPCNoSpace:      true,
		rpctypes.ErrAuthOldRevision:  false, // comes with each change of users
		rpctypes.ErrNotLeader:        false,
		rpctypes.ErrNoLeader:         false,
		rpctypes.ErrTimeout:          false,
		rpctypes.ErrTooManyRequests:  false,
		errors.New("unknown"):        false,
	} {
		equal(t, etcd.Definite(err), want, err)
	}
}

// TestListStrange: keys that are no lock's are left out, and a value that is no claim is
// nobody's name.
func TestListStrange(t *testing.T) {
	l, admin := open(t, etcd.Options{Prefix: "strange/"}), server.client(t)
	for name, text := range map[string]string{"a/b/w/1-0": `{"pid":0}`, "a/b/w/2-0": "x", "a/b/w/3/0": `{"pid":3}`, "a/b": `{"pid":4}`, "a/b/x/5-0": `{"pid":5}`, "a/%zz/w/6-0": `{"pid":6}`} {
		check(t, errOf(admin.Put(limited(t), "strange/locks/"+name, text)))
	}
	n := 0
	for e, err := range l.List(limited(t)) {
		check(t, err)
		if n += len(e.Processes) + len(e.Waiters); e.Key != (lock.Key{Space: "a", Name: "b"}) || e.Info != nil {
			t.Errorf("%v, %+v", e.Key, e.Info)
		}
	}
	equal(t, n, 2, "are listed")
}
