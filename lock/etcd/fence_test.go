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
	return must(held.Fence())(t)
}

// fenceKey is where the fence of a lock is.
func fenceKey(k lock.Key) string { return "holdfast/fences/" + k.Space + "/" + k.Name }

func kept(t testing.TB, c *clientv3.Client, name string) string {
	t.Helper()
	answer := must(c.Get(limited(t), name))(t)
	if len(answer.Kvs) == 0 {
		return ""
	}
	equal(t, answer.Kvs[0].Lease, 0, name, "goes with lease")
	return string(answer.Kvs[0].Value)
}

// TestFence: it is kept where it is said to be, for good, and goes on from what is there.
func TestFence(t *testing.T) {
	l, admin, k := open(t, etcd.Options{}), server.client(t), key()
	held := acquire(t, l, k)
	equal(t, kept(t, admin, fenceKey(k)), "", "not asked for, it")
	first := fenceOf(t, held)
	equal(t, kept(t, admin, fenceKey(k)), strconv.FormatInt(first, 10), "it is", first, "and kept")
	check(t, held.Release())
	if text := kept(t, admin, fenceKey(k)); text != strconv.FormatInt(first, 10) {
		t.Errorf("after the release, %q is kept", text)
	}
	ahead := time.Now().Add(time.Hour).UnixMicro()
	check(t, errOf(admin.Put(limited(t), fenceKey(k), strconv.FormatInt(ahead, 10))))
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
	reader := must(l.AcquireShared(limited(t), k))(t)
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
		check(t, errOf(admin.Put(limited(t), fenceKey(k), text)))
		held := acquire(t, l, k)
		fence, err := held.Fence()
		if fence != 0 || err == nil || errors.Is(err, lock.ErrLost) || !strings.HasSuffix(err.Error(), "etcdctl del '"+fenceKey(k)+"'") {
			t.Errorf("after %q comes %d, %v; want an error with the cure", text, fence, err)
		}
		if now := kept(t, admin, fenceKey(k)); now != text {
			t.Errorf("%q became %q", text, now)
		}
		check(t, errOf(admin.Delete(limited(t), fenceKey(k))))
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
			check(t, errOf(admin.Delete(limited(t), held.Own())))
		},
		"another in its place": func(_ *etcd.Locker, held *etcd.Hold) {
			check(t, errOf(admin.Delete(limited(t), held.Own())))
			check(t, errOf(admin.Put(limited(t), held.Own(), "{}")))
		},
		"the lease revoked": func(l *etcd.Locker, _ *etcd.Hold) {
			check(t, errOf(admin.Revoke(limited(t), clientv3.LeaseID(l.LeaseID()))))
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
		equal(t, kept(t, admin, fenceKey(k)), "", name, "the fence was raised to")
		check(t, errOf(admin.Delete(limited(t), folder(k), clientv3.WithPrefix())))
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
	equal(t, kept(t, admin, fenceKey(k)), strconv.FormatInt(fence, 10), "it is", fence, "and kept")
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
	check(t, errOf(admin.Put(limited(t), fenceKey(k), raised)))
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
		check(t, errOf(admin.Put(limited(t), "purged/fences/"+name, text)))
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
	equal(t, strings.Join(left, " "), "a/strange a/young", "left")
	_, err = l.PurgeFences(limited(t), time.Hour)
	wantIs(t, err, lock.ErrInvalidName)
	ended, cancel := context.WithCancel(limited(t))
	cancel()
	_, err = l.PurgeFences(ended, 24*time.Hour)
	wantIs(t, err, context.Canceled)
}
