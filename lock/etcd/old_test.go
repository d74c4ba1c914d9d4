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
	c := must(startCluster(1, memberConfig{Program: program}))(t)
	t.Cleanup(c.end)
	admin, w, k := c.client(t), newWire(t, c), key()
	status := must(admin.Status(limited(t), c.endpoints()[0]))(t)
	t.Log("version ", status.Version)
	l, other := open(t, etcd.Options{Client: w.client, Lease: 2 * time.Second}), open(t, etcd.Options{Client: c.client(t)})

	w.loseAnswer("Txn") // one lock after the other, and one that is asked for twice
	held := acquire(t, l, k)
	waits := begin(other, limited(t), k)
	untilWaiting(t, l, k, 1)
	that(t, errOf(l.TryAcquire(limited(t), k)) != nil, "two have the lock")
	check(t, held.Release())
	next := await(t, "the lock", waits).mustHave(t)
	if next.Created() <= held.Created() {
		t.Errorf("created at %d, after %d", next.Created(), held.Created())
	}
	check(t, next.Release())

	reader := must(l.AcquireShared(limited(t), k))(t)
	second := must(other.AcquireShared(limited(t), k))(t)
	ctx, cancel := context.WithCancel(limited(t))
	writer := begin(other, ctx, k)
	untilWaiting(t, l, k, 1)
	cancel()
	wantIs(t, await(t, "the end of the wait", writer).err, context.Canceled)
	check(t, reader.Release())
	check(t, second.Release())

	held = acquire(t, l, k)
	check(t, errOf(admin.Delete(limited(t), held.Own())))
	await(t, "Lost", held.Lost())
	held = acquire(t, l, k)
	check(t, errOf(admin.Revoke(limited(t), clientv3.LeaseID(l.LeaseID()))))
	await(t, "Lost", held.Lost())
	wantIs(t, held.Release(), lock.ErrLost)
	wantNoKeys(t, admin, folder(k))
}
