package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// What tests reach into. None of it may be called while the Locker is in use.

// Clock is a clock that a test sets.
type Clock = func() time.Duration

// OpenByClock is Open with another clock.
func OpenByClock(ctx context.Context, o Options, c Clock) (*Locker, error) {
	return open(ctx, o, func() instant { return instant{boot: c()} })
}

func (l *Locker) SetReleasePatience(d time.Duration) { l.releasePatience = d }

// LeaseID is that of the lease at the moment.
func (l *Locker) LeaseID() int64 {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	return int64(l.lease.id)
}

// Own is the key of a hold.
func (h *Hold) Own() string { return h.own }

// Since is how much time passes between two readings of a system that does not tell of
// sleep.
func Since(earlier, later time.Time) time.Duration {
	return instant{read: later}.since(instant{read: earlier})
}

// Fence1 is the fence of who is no reader.
func (h *Hold) Fence1() int64 { return h.created }

// Client is the Locker's.
func (l *Locker) Client() *clientv3.Client { return l.client }
