package etcd_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	engines "github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func fenceOf(t testing.TB, held lock.Hold) int64 {
	t.Helper()
	fence, err := held.Fence()
	check(t, err)
	return fence
}

// fenceKey is where the fence of a lock is.
func fenceKey(k lock.Key) string { return "holdfast/fences/" + k.Space + "/" + k.Name }

func kept(t testing.TB, c *clientv3.Client, name string) string {
	t.Helper()
	answer, err := c.Get(limited(t), name)
	check(t, err)
	if len(answer.Kvs) == 0 {
		return ""
	}
	if answer.Kvs[0].Lease != 0 {
		t.Errorf("%s goes with lease %x", name, answer.Kvs[0].Lease)
	}
	return string(answer.Kvs[0].Value)
}

// TestFence: it is kept where it is said to be, for good, and goes on from what is there.
func TestFence(t *testing.T) {
	l, admin, k := open(t, etcd.Options{}), server.client(t), key()
	held := acquire(t, l, k)
	if text := kept(t, admin, fenceKey(k)); text != "" {
		t.Errorf("not asked for, it is %q", text)
	}
	first := fenceOf(t, held)
	if text := kept(t, admin, fenceKey(k)); text != strconv.FormatInt(first, 10) {
		t.Errorf("it is %d, and kept is %q", first, text)
	}
	check(t, held.Release())
	if text := kept(t, admin, fenceKey(k)); text != strconv.FormatInt(first, 10) {
		t.Errorf("after the release, %q is kept", text)
	}
	ahead := time.Now().Add(time.Hour).UnixMicro()
	_, err := admin.Put(limited(t), fenceKey(k), strconv.FormatInt(ahead, 10))
	check(t, err)
	held = acquire(t, l, k)
	if fence := fenceOf(t, held); fence != ahead+1 {
		t.Errorf("after %d comes %d, want the next number", ahead, fence)
	}
	check(t, held.Release())
	if fence, err := held.Fence(); fence != ahead+1 || err != nil {
		t.Errorf("after the release it is %d, %v", fence, err)
	}
	held = acquire(t, l, k)
	check(t, held.Release())
	if fence, err := held.Fence(); err == nil || errors.Is(err, lock.ErrLost) || !strings.Contains(err.Error(), "was released") {
		t.Errorf("first asked for after the release, it is %d, %v", fence, err)
	}
	reader, err := l.AcquireShared(limited(t), k)
	check(t, err)
	if fence, err := reader.Fence(); fence != 0 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a reader, it is %d, %v", fence, err)
	}
	check(t, reader.Release())
}

// TestFenceOutOfReason: what no holder was given is an error with a command that cures it.
func TestFenceOutOfReason(t *testing.T) { // guards: F2
	l, admin := open(t, etcd.Options{}), server.client(t)
	for _, text := range []string{"9223372036854775807", "9007199254740991", "99999999999999999999", "-1", "x", ""} {
		k := key()
		_, err := admin.Put(limited(t), fenceKey(k), text)
		check(t, err)
		held := acquire(t, l, k)
		fence, err := held.Fence()
		if fence != 0 || err == nil || errors.Is(err, lock.ErrLost) || !strings.HasSuffix(err.Error(), "etcdctl del '"+fenceKey(k)+"'") {
			t.Errorf("after %q comes %d, %v; want an error with the cure", text, fence, err)
		}
		if now := kept(t, admin, fenceKey(k)); now != text {
			t.Errorf("%q became %q", text, now)
		}
		_, err = admin.Delete(limited(t), fenceKey(k))
		check(t, err)
		before := time.Now().UnixMicro()
		if fence := fenceOf(t, held); fence < before || fence > engines.MaxFence {
			t.Errorf("mended, it is %d", fence)
		}
		check(t, held.Release())
	}
}

// TestFenceOfTheLost: who has lost the lock gets no fence, and raises none, whether it knows
// of the loss or not.
func TestFenceOfTheLost(t *testing.T) {
	admin := server.client(t)
	for name, lose := range map[string]func(l *etcd.Locker, held *etcd.Hold){
		"its key deleted": func(_ *etcd.Locker, held *etcd.Hold) {
			_, err := admin.Delete(limited(t), held.Own())
			check(t, err)
		},
		"another in its place": func(_ *etcd.Locker, held *etcd.Hold) {
			_, err := admin.Delete(limited(t), held.Own())
			check(t, err)
			_, err = admin.Put(limited(t), held.Own(), "{}")
			check(t, err)
		},
		"the lease revoked": func(l *etcd.Locker, _ *etcd.Hold) {
			_, err := admin.Revoke(limited(t), clientv3.LeaseID(l.LeaseID()))
			check(t, err)
		},
	} {
		l, k := open(t, etcd.Options{}), key()
		held := acquire(t, l, k)
		lose(l, held)
		if fence, err := held.Fence(); fence != 0 || !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: fence %d, %v", name, fence, err)
		}
		await(t, "Lost", held.Lost())
		wantIs(t, held.Release(), lock.ErrLost)
		if text := kept(t, admin, fenceKey(k)); text != "" {
			t.Errorf("%s: the fence was raised to %s", name, text)
		}
		_, err := admin.Delete(limited(t), folder(k), clientv3.WithPrefix())
		check(t, err)
	}
}

// TestFenceAnswerLost: a fence that was raised, and nobody said so, is raised once more. A
// request that arrives late, when a later holder has a greater one, changes nothing.
func TestFenceAnswerLost(t *testing.T) {
	w := newWire(t, server)
	l, admin, k := open(t, etcd.Options{Client: w.client}), server.client(t), key()
	held := acquire(t, l, k)
	w.loseAnswer("Txn")
	fence := fenceOf(t, held)
	if text := kept(t, admin, fenceKey(k)); text != strconv.FormatInt(fence, 10) {
		t.Errorf("it is %d, and kept is %q", fence, text)
	}
	check(t, held.Release())

	held = acquire(t, l, k)
	_, arrive := w.delay("Txn", true)
	fence = fenceOf(t, held)
	check(t, held.Release())
	next := acquire(t, open(t, etcd.Options{}), k)
	last := fenceOf(t, next)
	check(t, arrive())
	if text := kept(t, admin, fenceKey(k)); last <= fence || text != strconv.FormatInt(last, 10) {
		t.Errorf("after %d came %d, and kept is %q", fence, last, text)
	}
	check(t, next.Release())

	// Nor does it while the same holder has the lock, and the fence was raised since.
	held = acquire(t, l, k)
	_, arrive = w.delay("Txn", true)
	fence = fenceOf(t, held)
	raised := strconv.FormatInt(fence+1000, 10)
	_, err := admin.Put(limited(t), fenceKey(k), raised)
	check(t, err)
	check(t, arrive())
	if text := kept(t, admin, fenceKey(k)); text != raised {
		t.Errorf("raised to %s, it is %s", raised, text)
	}
	check(t, held.Release())
}

// TestPurgeFences: what was given long ago is forgotten, and nothing else.
func TestPurgeFences(t *testing.T) {
	l, admin := open(t, etcd.Options{Prefix: "purged/"}), server.client(t)
	put := func(name, text string) {
		_, err := admin.Put(limited(t), "purged/fences/"+name, text)
		check(t, err)
	}
	at := func(age time.Duration) string { return strconv.FormatInt(time.Now().Add(-age).UnixMicro(), 10) }
	put("a/old", at(25*time.Hour))
	put("a/older", at(250*time.Hour))
	put("a/young", at(23*time.Hour))
	put("a/strange", "1x")
	if n, err := l.PurgeFences(limited(t), 24*time.Hour); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	var left []string
	answer, err := admin.Get(limited(t), "purged/fences/", clientv3.WithPrefix())
	check(t, err)
	for _, kv := range answer.Kvs {
		left = append(left, strings.TrimPrefix(string(kv.Key), "purged/fences/"))
	}
	if got := strings.Join(left, " "); got != "a/strange a/young" {
		t.Errorf("left is %s", got)
	}
	_, err = l.PurgeFences(limited(t), time.Hour)
	wantIs(t, err, lock.ErrInvalidName)
	ended, cancel := context.WithCancel(limited(t))
	cancel()
	_, err = l.PurgeFences(ended, 24*time.Hour)
	wantIs(t, err, context.Canceled)
}
