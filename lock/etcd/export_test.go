package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// What tests reach into. None of it may be called while the Locker is in use.

// Clock is a clock that a test sets: see instant.
type Clock = func() (boot, running, wall time.Duration)

// OpenByClock is Open with another clock.
func OpenByClock(ctx context.Context, o Options, c Clock) (*Locker, error) {
	return open(ctx, o, func() (i instant) {
		i.boot, i.running, i.wall = c()
		return i
	})
}

func (l *Locker) SetReleasePatience(d time.Duration) { l.releasePatience = d }

// AskAsWith has requests be bounded as by a lease of this length. The lease itself stays as it is.
func (l *Locker) AskAsWith(lease time.Duration) { l.options.Lease = lease }

// LeaseID is that of the lease at the moment.
func (l *Locker) LeaseID() int64 {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	return int64(l.lease.id)
}

// Own is the key of a hold.
func (h *Hold) Own() string { return h.own }

// Created is the revision at which a hold's key was created: later holders have a greater one.
func (h *Hold) Created() int64 { return h.created }

// Client is the Locker's.
func (l *Locker) Client() *clientv3.Client { return l.client }

// Holds is how many holds the Locker's lease knows of.
func (l *Locker) Holds() int {
	l.lease.mu.Lock()
	defer l.lease.mu.Unlock()
	return len(l.lease.holds)
}

// LeaseLost says that the Locker knows that its lease has gone.
func (l *Locker) LeaseLost() bool { return l.lease.ctx.Err() != nil }

// Epoch is the Locker's, once these revisions of its key were seen, in their order.
func Epoch(seen ...int64) int64 {
	le := new(lease)
	for _, revision := range seen {
		le.raiseEpoch(revision)
	}
	return le.currentEpoch()
}

// Definite says of an error that asking again is of no use.
var Definite = definite
