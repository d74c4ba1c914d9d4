package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// lease is a lease of the cluster's. All keys of a Locker are under it, until it is lost. See
// the protocol in acquire.go.
type lease struct {
	locker *Locker
	id     clientv3.LeaseID
	ttl    time.Duration // as the cluster grants it
	// self is the key that names the Locker. Its modification revision is the epoch: E2.
	self, value string

	ctx    context.Context // ends, with a cause, when the lease is lost
	cancel context.CancelCauseFunc
	stream keepAliveStream // of keep's alone

	mu    sync.Mutex // guards what follows
	heard instant    // when the last answered request for more time was sent
	epoch int64
	holds map[*Hold]struct{}
	free  []int // slots that were used, and are no more
	slots int   // how many there have been
}

// leased returns the lease to acquire under: a new one, if the last one is lost.
func (l *Locker) leased(ctx context.Context) (*lease, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.lease != nil && l.lease.alive() {
		return l.lease, nil
	}
	if l.closing.Err() != nil {
		return nil, errClosed
	}
	le, err := l.grant(ctx)
	if err == nil {
		l.lease = le
	}
	return le, err
}

// grant asks for a lease. If it runs out before it is used (we were stopped, say), grant asks
// for another.
func (l *Locker) grant(ctx context.Context) (*lease, error) {
	for begun := time.Now(); ; {
		le, err := l.grantOnce(ctx)
		if err == nil || codeOf(err) != codes.NotFound || ctx.Err() != nil || time.Since(begun) > l.patience() {
			return le, err
		}
	}
}

func (l *Locker) grantOnce(ctx context.Context) (*lease, error) {
	var sent instant
	var granted *clientv3.LeaseGrantResponse
	err := l.step(ctx, func(ctx context.Context) (err error) {
		sent = l.now()
		granted, err = l.client.Grant(ctx, int64((l.options.Lease+time.Second-1)/time.Second))
		return err
	})
	if err != nil {
		return nil, err
	}
	le := &lease{
		locker: l, id: granted.ID, ttl: time.Duration(granted.TTL) * time.Second, heard: sent, holds: map[*Hold]struct{}{},
	}
	le.self = l.options.Prefix + lockersDir + le.name()
	_, le.value = l.claim(le.name(), exclusive)
	le.ctx, le.cancel = context.WithCancelCause(context.Background())
	if l.cluster == 0 { // in Open: later it is read, without a guard
		l.cluster = granted.ResponseHeader.GetClusterId()
	}
	if err := le.newEpoch(ctx); err != nil {
		le.lose(err)
		return nil, err
	}
	l.tasks.Go(le.keep)
	l.tasks.Go(le.guard)
	return le, nil
}

// term is for how long the holder believes in a lease of which it hears nothing.
func (le *lease) term() time.Duration { return le.ttl - le.ttl/10 }

// alive reports whether the lease can be relied on now. If it can't, it is lost.
func (le *lease) alive() bool {
	if le.ctx.Err() != nil {
		return false
	}
	le.mu.Lock()
	silent := le.locker.now().since(le.heard)
	le.mu.Unlock()
	if silent < le.term() {
		return true
	}
	le.lose(fmt.Errorf("%w: %v", errSilent, silent.Round(time.Millisecond)))
	return false
}

// guard looks at the clock. Timers stand still while the machine sleeps, so it looks more
// often than it else would: it is late by a twentieth of the lease at most.
func (le *lease) guard() {
	for le.alive() {
		le.mu.Lock()
		left := le.term() - le.locker.now().since(le.heard)
		le.mu.Unlock()
		select {
		case <-time.After(min(left, le.ttl/20)):
		case <-le.ctx.Done():
		}
	}
}

// keep keeps the lease alive. A try that has no answer in time is given up for another,
// which may reach another member.
func (le *lease) keep() {
	for tries := 0; ; {
		wait := le.ttl / 4
		sent := le.locker.now()
		ttl, err := le.beat()
		switch {
		case err == nil && ttl <= 0, codeOf(err) == codes.NotFound:
			le.lose(errRevoked)
		case err == nil:
			le.mu.Lock()
			le.heard = sent
			le.mu.Unlock()
			tries = 0
		default:
			wait = 0
			pause(le.ctx, tries)
			tries++
		}
		select {
		case <-time.After(wait):
		case <-le.ctx.Done():
			if le.stream.cancel != nil {
				le.stream.cancel()
			}
			return
		}
	}
}

// keepAliveStream is used for one request after the other, as an answer does not say to
// which it belongs.
type keepAliveStream struct {
	pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// beat asks for more time, and waits for the answer.
func (le *lease) beat() (ttl int64, err error) {
	s := &le.stream
	if s.cancel == nil {
		var ctx context.Context
		ctx, s.cancel = context.WithCancel(clientv3.WithRequireLeader(le.ctx))
		if s.Lease_LeaseKeepAliveClient, err = pb.NewLeaseClient(le.locker.client.ActiveConnection()).LeaseKeepAlive(ctx); err != nil {
			s.cancel()
			s.cancel = nil
			return 0, err
		}
	}
	limit := time.AfterFunc(le.ttl/6, s.cancel)
	var answer *pb.LeaseKeepAliveResponse
	if err = s.Send(&pb.LeaseKeepAliveRequest{ID: int64(le.id)}); err == nil {
		answer, err = s.Recv()
	} else {
		_, err = s.Recv() // says why it can't be sent
	}
	if !limit.Stop() && err == nil {
		err = errSilent
	}
	if err != nil {
		s.cancel()
		s.cancel = nil
		return 0, err
	}
	return answer.TTL, nil
}

// lose says that the lease can't be relied on any more: all that is held under it is lost.
// Then the cluster is told, so that nobody has to wait for its end.
func (le *lease) lose(why error) {
	le.mu.Lock()
	if le.ctx.Err() != nil {
		le.mu.Unlock()
		return
	}
	le.cancel(why)
	var holds []*Hold
	for h := range le.holds {
		holds = append(holds, h)
	}
	le.mu.Unlock()
	for _, h := range holds {
		h.lose(why)
	}
	if errors.Is(why, errRevoked) {
		return
	}
	le.locker.tasks.Go(func() {
		limited, cancel := context.WithTimeout(context.Background(), le.ttl)
		defer cancel()
		_ = le.locker.step(limited, func(ctx context.Context) error {
			_, err := le.locker.client.Revoke(ctx, le.id)
			return err
		})
	})
}

// add notes a hold; not if the lease is lost.
func (le *lease) add(h *Hold) bool {
	if !le.alive() {
		return false
	}
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.ctx.Err() != nil {
		return false
	}
	le.holds[h] = struct{}{}
	return true
}

func (le *lease) forget(h *Hold) {
	le.mu.Lock()
	defer le.mu.Unlock()
	delete(le.holds, h)
}

// name is the lease's id, in names of keys.
func (le *lease) name() string { return strconv.FormatUint(uint64(le.id), 16) }

// takeSlot gives a number that no other acquisition has: the one that was freed last, if any,
// so that few are used.
func (le *lease) takeSlot() int {
	le.mu.Lock()
	defer le.mu.Unlock()
	if n := len(le.free); n > 0 {
		slot := le.free[n-1]
		le.free = le.free[:n-1]
		return slot
	}
	le.slots++
	return le.slots - 1
}

// freeSlot gives a number back, once there is no key with it in its name, and none can come.
func (le *lease) freeSlot(slot int) {
	le.mu.Lock()
	defer le.mu.Unlock()
	le.free = append(le.free, slot)
}

func (le *lease) currentEpoch() int64 {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.epoch
}

// raiseEpoch notes that the Locker's key was seen to be of this revision.
func (le *lease) raiseEpoch(revision int64) {
	le.mu.Lock()
	defer le.mu.Unlock()
	le.epoch = max(le.epoch, revision)
}

// renewEpoch takes the epoch from the Locker's key, which was seen at another, or had gone.
func (le *lease) renewEpoch(self []*mvccpb.KeyValue) error {
	if len(self) == 0 {
		return le.newEpoch(le.ctx)
	}
	le.raiseEpoch(self[0].ModRevision)
	return nil
}

// newEpoch puts the Locker's key.
func (le *lease) newEpoch(ctx context.Context) error {
	ctx, done := both(ctx, le.ctx)
	defer done()
	return le.locker.step(ctx, func(ctx context.Context) error {
		put, err := le.locker.client.Put(ctx, le.self, le.value, clientv3.WithLease(le.id))
		switch {
		case codeOf(err) == codes.NotFound:
			le.lose(errRevoked)
		case err == nil:
			le.raiseEpoch(put.Header.Revision)
		}
		return err
	})
}
