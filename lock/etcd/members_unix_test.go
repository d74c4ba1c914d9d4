//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// TestMembers is of three members that are killed, stopped and cut off.
func TestMembers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	t.Run("LeaderKilled", func(t *testing.T) { leaderKilled(t, c) })
	t.Run("Stopped", func(t *testing.T) { memberStopped(t, c) })
	t.Run("Minority", func(t *testing.T) { minority(t, c) })
}

// leaderKilled: of three members the leader is killed, then started again, and the next one;
// holds and waits outlive it.
func leaderKilled(t *testing.T, c *cluster) {
	client := c.client(t)
	l, other := open(t, etcd.Options{Client: c.client(t)}), open(t, etcd.Options{Client: c.client(t)})
	for range 2 {
		k := key()
		held := acquire(t, l, k)
		came := begin(other, limited(t), k)
		untilWaiting(t, l, k, 1)
		leader := c.leader(t, client)
		leader.kill()
		again := key()
		fresh := acquire(t, l, again) // by a new leader
		check(t, fresh.Release())
		select {
		case <-held.Lost():
			t.Error("lost: ", context.Cause(held.Context(context.Background())))
		case o := <-came:
			t.Errorf("two have the lock, or %v", o.err)
		default:
		}
		check(t, held.Release())
		check(t, await(t, "the lock", came).mustHave(t).Release())
		wantNoKeys(t, client, folder(k))
		wantNoKeys(t, client, folder(again))
		check(t, await(t, "the member", leader.start()))
	}
}

// stop stops a member for as long as the test runs, at most.
func (m *member) stop(t *testing.T) (goOn func()) {
	t.Helper()
	check(t, m.cmd.Process.Signal(syscall.SIGSTOP))
	goOn = func() { _ = m.cmd.Process.Signal(syscall.SIGCONT) }
	t.Cleanup(goOn)
	return goOn
}

// memberStopped: a member that is stopped, be it the leader or not, takes nothing from
// anybody. It takes requests, and answers none: a client that asks one member after the other
// meets it again and again.
func memberStopped(t *testing.T, c *cluster) {
	client := c.client(t)
	const lease = 4 * time.Second
	l, other := open(t, etcd.Options{Client: c.client(t), Lease: lease}), open(t, etcd.Options{Client: c.client(t), Lease: lease})
	leader := c.leader(t, client)
	follower := c.members[0]
	if follower == leader {
		follower = c.members[1]
	}
	for _, m := range []*member{leader, follower} {
		k := key()
		held := acquire(t, l, k)
		came := begin(other, limited(t), k)
		untilWaiting(t, l, k, 1)
		goOn := m.stop(t)
		eventually(t, "another lock", func() bool { // from those who are left
			h, err := l.TryAcquire(limited(t), key())
			if err != nil {
				return false
			}
			return h.Release() == nil
		})
		select {
		case <-held.Lost():
			t.Log("the lease could not be kept") // it is short beside an election here
		default:
		}
		_ = held.Release()
		next := await(t, "the lock", came).mustHave(t)
		_ = next.Release()
		goOn()
		c.leader(t, client)
		eventually(t, "nothing is left", func() bool { return count(t, client, folder(k)) == 0 })
	}
}

// minority: who reaches only a member that is cut off from the others is told so by it, gets
// nothing, and has lost what it had; and then goes on as before.
func minority(t *testing.T, c *cluster) {
	client := c.client(t)
	alone, rest := c.members[0], c.members[1:]
	w := newWireTo(t, clientv3.Config{Endpoints: []string{alone.config.Client}, Logger: zap.NewNop()})
	var told atomic.Bool
	w.set(func(w *wire) {
		w.unary = func(ctx context.Context, _ string, r request) error {
			err := r.send(ctx)
			if errors.Is(rpctypes.Error(err), rpctypes.ErrNoLeader) {
				told.Store(true)
			}
			return err
		}
	})
	l, k := open(t, etcd.Options{Client: w.client, Lease: 4 * time.Second}), key()
	held := acquire(t, l, k)
	for _, m := range rest {
		defer m.stop(t)()
	}
	await(t, "Lost", held.Lost())
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	tried := begin(l, ctx, key())
	eventually(t, "the member says that it has no leader", told.Load)
	cancel()
	if o := await(t, "the end", tried); o.err == nil {
		t.Error("a lock of a minority: ", o.held.Release())
	}
	wantIs(t, held.Release(), lock.ErrLost)
	for _, m := range rest {
		check(t, m.cmd.Process.Signal(syscall.SIGCONT))
	}
	eventually(t, "a lock", func() bool {
		h, err := l.TryAcquire(limited(t), k)
		return err == nil && h.Release() == nil
	})
	eventually(t, "nothing is left", func() bool { return count(t, client, folder(k)) == 0 })
}
