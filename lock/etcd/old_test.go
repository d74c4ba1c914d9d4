package etcd_test

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestInstalledServer is of the etcd that this machine has: of 3.4, say. To run all tests
// with it, set HOLDFAST_ETCD_SERVER to its path.
func TestInstalledServer(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("needs etcd-server, to try the version that is installed: ", err)
	}
	c, err := startCluster(1, memberConfig{Program: program})
	check(t, err)
	t.Cleanup(c.end)
	admin, w, k := c.client(t), newWire(t, c), key()
	status, err := admin.Status(limited(t), c.endpoints()[0])
	check(t, err)
	t.Log("version ", status.Version)
	l, other := open(t, etcd.Options{Client: w.client, Lease: 2 * time.Second}), open(t, etcd.Options{Client: c.client(t)})

	w.loseAnswer("Txn") // one lock after the other, and one that is asked for twice
	held := acquire(t, l, k)
	waits := begin(other, limited(t), k)
	untilWaiting(t, l, k, 1)
	if _, err := l.TryAcquire(limited(t), k); err == nil {
		t.Error("two have the lock")
	}
	check(t, held.Release())
	next := await(t, "the lock", waits).mustHave(t)
	if next.Created() <= held.Created() {
		t.Errorf("created at %d, after %d", next.Created(), held.Created())
	}
	check(t, next.Release())

	reader, err := l.AcquireShared(limited(t), k)
	check(t, err)
	second, err := other.AcquireShared(limited(t), k)
	check(t, err)
	ctx, cancel := context.WithCancel(limited(t))
	writer := begin(other, ctx, k)
	untilWaiting(t, l, k, 1)
	cancel()
	wantIs(t, await(t, "the end of the wait", writer).err, context.Canceled)
	check(t, reader.Release())
	check(t, second.Release())

	held = acquire(t, l, k)
	_, err = admin.Delete(limited(t), held.Own())
	check(t, err)
	await(t, "Lost", held.Lost())
	held = acquire(t, l, k)
	_, err = admin.Revoke(limited(t), clientv3.LeaseID(l.LeaseID()))
	check(t, err)
	await(t, "Lost", held.Lost())
	wantIs(t, held.Release(), lock.ErrLost)
	wantNoKeys(t, admin, folder(k))
}
