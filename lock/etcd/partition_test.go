package etcd_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// TestPartition is of three members with a network between them that cuts one off: all are
// alive, and hear nothing.
func TestPartition(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	c := must(startCluster(3, memberConfig{between: n}))(t)
	t.Cleanup(c.end)
	t.Run("Leader", func(t *testing.T) { partition(t, n, c, true) })
	t.Run("Follower", func(t *testing.T) { partition(t, n, c, false) })
	t.Run("Silent", func(t *testing.T) { silentMember(t, n, c) })
}

// oneOf returns the leader, or a member that is not, and the others.
func (c *cluster) oneOf(t testing.TB, client *clientv3.Client, isLeader bool) (one *member, rest []*member) {
	t.Helper()
	leader := c.leader(t, client)
	for _, m := range c.members {
		if one == nil && (m == leader) == isLeader {
			one = m
		} else {
			rest = append(rest, m)
		}
	}
	return one, rest
}

// openBy opens the locks by some members only.
func openBy(t testing.TB, lease time.Duration, members ...*member) *etcd.Locker {
	t.Helper()
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.config.Client)
	}
	client := must(clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}))(t)
	t.Cleanup(func() { client.Close() })
	return open(t, etcd.Options{Client: client, Lease: lease})
}

// partition: who reaches only the member that is cut off, be it the leader, knows that the
// lock is lost when another gets it. The others' locks, and waits, go on, as do those of who
// was cut off when the network heals.
func partition(t *testing.T, n *network, c *cluster, isLeader bool) {
	const lease = 5 * time.Second
	client := c.client(t)
	alone, rest := c.oneOf(t, client, isLeader)
	l, other, third := openBy(t, lease, alone), openBy(t, patience, rest...), openBy(t, patience, rest...)

	k, elsewhere, blocked := key(), key(), key()
	held := acquire(t, l, k)
	ctx := held.Context(limited(t))
	lostAt, hadAt := make(chan time.Time, 1), make(chan time.Time, 1)
	go func() {
		<-held.Lost()
		lostAt <- time.Now()
	}()
	came := make(chan outcome, 1)
	go func() {
		h, err := other.Acquire(limited(t), k)
		that(t, err != nil || ctx.Err() != nil, "two have the lock, and both believe so")
		hadAt <- time.Now()
		came <- outcome{h, err}
	}()
	untilWaiting(t, other, k, 1)
	theirs := acquire(t, third, elsewhere)
	handed := begin(other, limited(t), elsewhere)
	untilWaiting(t, other, elsewhere, 1)
	blocker := acquire(t, third, blocked)
	cutOff := begin(l, limited(t), blocked)
	untilWaiting(t, other, blocked, 1)

	ends := alone.asPeer(t, client)
	n.set(true, ends...)
	defer n.set(false, ends...)
	cut := time.Now()
	leaderOf(t, client, rest)
	check(t, acquire(t, other, key()).Release())
	check(t, theirs.Release())
	check(t, await(t, "the lock", handed).mustHave(t).Release())

	await(t, "Lost", held.Lost())
	tried := make(chan outcome, 1)
	go func() {
		h, err := l.Acquire(limited(t), key())
		tried <- outcome{h, err}
	}()
	next := await(t, "the lock of who was cut off", came).mustHave(t)
	t.Logf("of a lease of %v: lost %v after the cut, and had by the next one after %v", lease, (<-lostAt).Sub(cut), (<-hadAt).Sub(cut))
	if held.Created() >= next.Created() {
		t.Errorf("created at %d, after %d", next.Created(), held.Created())
	}
	select {
	case o := <-tried:
		that(t, o.err != nil, "a lock of a minority")
		tried <- o
	default:
	}
	wantIs(t, held.Release(), lock.ErrLost)

	n.set(false, ends...)
	check(t, blocker.Release())
	check(t, next.Release())
	for _, cut := range []<-chan outcome{tried, cutOff} { // whatever they come to
		if o := await(t, "the end of what was cut off", cut); o.err == nil {
			check(t, o.held.Release())
		}
	}
	eventually(t, "a lock", func() bool {
		h, err := l.TryAcquire(limited(t), k)
		return err == nil && h.Release() == nil
	})
	for _, l := range []*etcd.Locker{l, other, third} {
		l.Close()
	}
	eventually(t, "nothing is left", func() bool { return count(t, client, "holdfast/") == 0 })
}

// silentMember: of three members one is heard by clients no more. They keep, have, and wait
// for locks by the others.
func silentMember(t *testing.T, n *network, c *cluster) {
	direct := c.client(t)
	silent, _ := c.oneOf(t, direct, false)
	var endpoints []string
	for _, m := range c.members {
		endpoint := must(n.before(m.config.Client, asServer(m.config.Name)))(t)
		endpoints = append(endpoints, endpoint)
	}
	var lockers []*etcd.Locker
	for range 2 {
		client := must(clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}))(t)
		t.Cleanup(func() { client.Close() })
		lockers = append(lockers, open(t, etcd.Options{Client: client, Lease: 6 * time.Second}))
	}
	l, other, k := lockers[0], lockers[1], key()
	held := acquire(t, l, k)
	came := begin(other, limited(t), k)
	untilWaiting(t, l, k, 1)

	n.set(true, asServer(silent.config.Name))
	defer n.set(false, asServer(silent.config.Name))
	for range 3 {
		if err := acquire(t, l, key()).Release(); err != nil {
			wantIs(t, err, lock.ErrLost) // it is asked for twice in that time, and may meet the silent one twice
		}
	}
	notYet(t, held.Lost(), "lost, though two of three members answer")
	_ = held.Release()
	next := await(t, "the lock", came).mustHave(t)
	n.set(false, asServer(silent.config.Name))
	check(t, next.Release())
	for _, l := range lockers {
		l.Close()
	}
	eventually(t, "nothing is left", func() bool { return count(t, direct, "holdfast/") == 0 })
}
