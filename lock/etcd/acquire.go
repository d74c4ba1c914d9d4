package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// # The protocol
//
// Lease. A Locker has one lease, and all its keys are under it.
//
//	L1  It asks for more time every quarter of the lease. It believes in the lease for nine
//	    tenths of it, counted from when the last answered request was sent. The clock for
//	    that is set by nobody, and goes on in sleep (clock.go).
//	L2  What it holds is lost at that moment, or when the cluster says that the lease has
//	    gone. A lease that is lost stays lost: whatever is answered later.
//
// So a holder stops believing before the cluster can give the lock to another: the cluster
// counts from when it has received the request, or from when a new leader was elected, to
// which it adds an election timeout. A leader that is cut off answers for two of these, as it
// looks for its majority once in each, and a new one is elected after one at the earliest. (One
// that stood still asks a majority first: etcd 3.4.25, 3.5.8.) The tenth is for clocks that do
// not run alike.
//
// Queue. A lock is a folder. Each acquisition puts one key of its own there. Its name is the
// lease's id, and a number that no other acquisition of the Locker has. The number is used
// again once the key is known to be gone: the cluster's index keeps each name until it is
// compacted, and a look at a lock goes past all of them.
//
//	Q1  One transaction puts the key, and reads the last key before it that is in its way:
//	    for a writer any, for a reader a writer's. A try puts the key only if there is none.
//	Q2  If there is none, it has the lock. Else it waits until that key has gone (Q5), then
//	    looks at one revision for its own key, and for the last one in its way that was
//	    created before it; and so on.
//	Q3  Without its own key it has nothing, and begins anew.
//	Q4  To release is to delete the own key. The number is used again only if the first
//	    request to do so was answered: one that arrives late meets no later key.
//
// Two keys of one name are told apart by their create revisions.
//
// Create revisions order the keys, and no key ever comes before one that is there. So an
// acquisition that finds no key in its way, once, has the lock until its own key goes: a writer
// after all others, a reader after all writers.
//
//	Q5  A wait for a key to go is a watch from the revision after that at which the key was
//	    seen. When the watch ends for whatever reason (the leader is gone, the connection,
//	    the revision was compacted, the token has expired), or says nothing for a lease's
//	    time, the key is looked for, and watched from there.
//
// Holds. A holder waits likewise for its own key to go (by hand): then the lock is lost.
//
// Lost answers. A request without an answer is sent again. The first may still be under way,
// and arrive after its successor, or when nobody wants the lock any more.
//
//	E1  Q1 that is sent again does nothing if its key is there.
//	E2  The Locker has a key of its own. Its modification revision is the epoch. Q1 does
//	    nothing if the epoch is not that which it names.
//	E3  If a Q1 was not answered, the transaction that deletes the acquisition's key puts the
//	    Locker's key, too. From then on there is a later epoch: the request has been carried
//	    out, or never will be. The number is not used again.
//
// Whatever is sent again is one request: so a client that asks one member after the other
// does not meet a silent one each time. The Locker's key goes with the lease, so that nothing
// is put for a lease that has gone.
//
// Cancel. A waiter that gives up deletes its key (Q4, E3). If that can't be done at once, it
// goes on in the background until it is done, or the lease has gone, and the key with it.

// Acquire acquires the lock, waiting behind all earlier callers for as long as ctx allows.
//
// When ctx ends while it waits, nothing is held. The error is then a *lock.LockedError, names
// the holder as far as that is known, and matches lock.ErrTimeout and
// context.DeadlineExceeded, or context.Canceled. A cluster that gives no answer for ten
// seconds, or the time of a longer lease, ends the wait, as does any other failure. A wait
// outlives the loss of the lease, but begins again, behind all that are there.
func (l *Locker) Acquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, exclusive, false)
}

// TryAcquire acquires the lock if nobody has it or waits for it.
func (l *Locker) TryAcquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, exclusive, true)
}

// AcquireShared is Acquire for a shared lock: any number of readers have it together, and none
// beside an exclusive holder. A shared lock has no fence.
func (l *Locker) AcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, shared, false)
}

// TryAcquireShared is TryAcquire for a shared lock. Waiting readers are not in its way.
func (l *Locker) TryAcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, shared, true)
}

// attempt is one acquisition. It belongs to one goroutine.
type attempt struct {
	locker *Locker
	key    lock.Key
	folder string
	mode   mode
	try    bool
	begun  time.Time

	lease *lease
	place
	info  evidence.Claim
	value string

	waited bool            // somebody was in the way
	told   bool            // Observe has been told so
	holder *evidence.Claim // at the last look; nil if unknown
}

// place is a key of ours in a queue.
type place struct {
	own     string
	slot    int   // in its name
	created int64 // its revision; 0 as long as nothing is known of it
	doubt   bool  // a request to put it may still be under way: E3
	spoiled bool  // so may one to delete it: Q4
}

// rival is a key in our way, and a revision at which it was there.
type rival struct {
	key         string
	created, at int64
}

func (l *Locker) acquire(ctx context.Context, key lock.Key, m mode, try bool) (lock.Hold, error) {
	folder, err := l.folder(key)
	if err != nil {
		return nil, err
	}
	a := &attempt{locker: l, key: key, folder: folder, mode: m, try: try, begun: time.Now()}
	if ctx.Err() != nil {
		return nil, a.wrap(endOf(ctx))
	}
	if err := a.reentrant(ctx); err != nil {
		return nil, err
	}
	if err := l.use(); err != nil {
		return nil, a.wrap(err)
	}
	defer l.users.Done()
	ctx, done := both(ctx, l.closing)
	defer done()
	held, err := a.run(ctx)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // cancel beats acquire
		return nil, errors.Join(a.wrap(endOf(ctx)), held.Release())
	}
	return held, nil
}

func (a *attempt) wrap(err error) error { return fmt.Errorf("etcd: acquire %s: %w", a.key, err) }

// reentrant is an error if the caller's own context has the lock.
func (a *attempt) reentrant(ctx context.Context) error {
	hold, ok := engine.HoldOf(ctx, lockID{a.locker.cluster, a.folder}).(lock.Hold)
	if !ok {
		return nil
	}
	info := hold.Info()
	return &lock.LockedError{Status: lock.Status{Key: a.key, Path: a.key.String(), Info: &info, State: evidence.Held, Evidence: evidence.SameProcess}, Cause: lock.ErrReentrant}
}

// run acquires, or fails. If its key goes, it begins again with another.
func (a *attempt) run(ctx context.Context) (*Hold, error) {
	for {
		le, err := a.locker.leased(ctx)
		if err == nil {
			a.lease = le
			var held *Hold
			if held, err = a.queue(ctx); err == nil {
				return held, nil
			}
		}
		var locked *lock.LockedError
		switch {
		case errors.As(err, &locked):
			return nil, locked
		case ctx.Err() != nil:
			return nil, a.gaveUp(ctx)
		case errors.Is(err, errAgain), le != nil && le.ctx.Err() != nil:
		default:
			return nil, a.wrap(err)
		}
	}
}

// queue puts a key, and waits until it is its turn. On failure no key is left, or it goes
// with the lease.
func (a *attempt) queue(ctx context.Context) (*Hold, error) {
	slot := a.lease.takeSlot()
	a.place = place{slot: slot, own: a.folder + a.mode.dir + a.lease.name() + "-" + strconv.Itoa(slot)}
	a.info, a.value = a.locker.claim(rand.Text(), a.mode)
	before, err := a.enter(ctx)
	if err != nil {
		return nil, err // and there is no key
	}
	for before != nil {
		a.waited = true
		a.tell()
		err := a.lease.untilGone(ctx, *before)
		if err == nil {
			before, err = a.look(ctx)
		}
		if err != nil {
			a.leave()
			return nil, err
		}
	}
	h := a.hold()
	if h == nil {
		return nil, errAgain
	}
	return h, nil
}

// enter is Q1. On failure there is no key, and none comes, or it is seen to in the
// background.
func (a *attempt) enter(ctx context.Context) (before *rival, err error) {
	le := a.lease
	for begun, tries := time.Now(), 0; ctx.Err() == nil && le.ctx.Err() == nil; {
		epoch := le.currentEpoch()
		limited, done := a.locker.limit(ctx, tries)
		answer, err := a.request(limited, epoch)
		done()
		switch {
		case err == nil && answer.Succeeded:
			a.created = answer.Header.Revision
			return a.before(answer.Responses[1].GetResponseRange().Kvs, answer.Header.Revision), nil
		case err == nil:
			self, own := answer.Responses[0].GetResponseRange().Kvs, answer.Responses[1].GetResponseRange().Kvs
			switch {
			case len(own) > 0: // an earlier request has put it
				a.created = own[0].CreateRevision
				if before, err = a.look(ctx); err != nil {
					a.leave()
				}
				return before, err
			case len(self) > 0 && self[0].ModRevision == epoch: // so it was a try
				a.holder = firstClaim(answer.Responses[2].GetResponseRange().Kvs)
				return nil, a.never(a.locked())
			}
			a.doubt = false // there is a later epoch, and no key
			if err := le.renewEpoch(self); err != nil {
				return nil, a.never(err)
			}
			continue
		case codeOf(err) == codes.NotFound:
			le.lose(errRevoked)
			return nil, errAgain
		case definite(err):
			return nil, a.never(err)
		}
		a.doubt = true
		if time.Since(begun) > a.locker.patience() {
			return nil, a.never(fmt.Errorf("%w: %v", errSilent, err))
		}
		pause(ctx, tries)
		tries++
	}
	return nil, a.never(errAgain)
}

// leavePatience bounds how long an acquisition that gives up waits for its key to be gone.
const leavePatience = 500 * time.Millisecond

// never makes sure that no key comes of what was asked for.
func (a *attempt) never(why error) error {
	if a.doubt {
		a.leave()
	} else {
		a.lease.freeSlot(a.slot)
	}
	return why
}

// request is Q1, once. Only one that is sent again can find its key.
func (a *attempt) request(ctx context.Context, epoch int64) (*clientv3.TxnResponse, error) {
	le, behind := a.lease, a.folder+a.mode.behind
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(le.self), "=", epoch)}
	otherwise := []clientv3.Op{clientv3.OpGet(le.self, clientv3.WithKeysOnly()), clientv3.OpGet(a.own, clientv3.WithKeysOnly())}
	if a.doubt {
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(a.own), "=", 0))
	}
	if a.try { // a key that is there was created at some revision
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(behind).WithPrefix(), "=", 0))
		otherwise = append(otherwise, clientv3.OpGet(a.folder, clientv3.WithFirstCreate()...))
	}
	return a.locker.client.Txn(ctx).If(conditions...).Then(
		clientv3.OpPut(a.own, a.value, clientv3.WithLease(le.id)),
		// Our own is among them, if we wait for all.
		clientv3.OpGet(behind, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend),
			clientv3.WithLimit(2), clientv3.WithKeysOnly()),
	).Else(otherwise...).Commit()
}

// look is the look of Q2: at our own key, and at the last one in its way.
func (a *attempt) look(ctx context.Context) (before *rival, err error) {
	ctx, done := both(ctx, a.lease.ctx)
	defer done()
	var answer *clientv3.TxnResponse
	err = a.locker.step(ctx, func(ctx context.Context) (err error) {
		answer, err = a.locker.client.Txn(ctx).Then(
			clientv3.OpGet(a.own, clientv3.WithKeysOnly()),
			clientv3.OpGet(a.folder+a.mode.behind, append(clientv3.WithLastCreate(),
				clientv3.WithMaxCreateRev(a.created-1), clientv3.WithKeysOnly())...),
		).Commit()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !there(answer.Responses[0].GetResponseRange().Kvs, a.created):
		return nil, errAgain
	}
	return a.before(answer.Responses[1].GetResponseRange().Kvs, answer.Header.Revision), nil
}

// before picks the first key that is not our own; nil if there is none.
func (a *attempt) before(keys []*mvccpb.KeyValue, at int64) *rival {
	for _, kv := range keys {
		if string(kv.Key) != a.own {
			return &rival{string(kv.Key), kv.CreateRevision, at}
		}
	}
	return nil
}

// there reports whether an answer has a key, and not a later one of its name.
func there(kvs []*mvccpb.KeyValue, created int64) bool {
	return len(kvs) > 0 && kvs[0].CreateRevision == created
}

// leave deletes our key, and looks for the holder.
func (a *attempt) leave() {
	gone := make(chan struct{})
	le, p := a.lease, a.place // nobody else uses these from here on
	a.locker.users.Add(1)     // Close waits for the caller already
	go func() {
		defer a.locker.users.Done()
		defer close(gone)
		le.removeAnyhow(&p)
	}()
	select {
	case <-gone:
		a.lookWho()
	case <-time.After(leavePatience):
	}
}

// lookWho looks for the holder, if that takes no long time.
func (a *attempt) lookWho() {
	limited, cancel := context.WithTimeout(clientv3.WithRequireLeader(a.lease.ctx), leavePatience)
	defer cancel()
	if answer, err := a.locker.client.Get(limited, a.folder, clientv3.WithFirstCreate()...); err == nil {
		a.holder = firstClaim(answer.Kvs)
		a.waited = a.waited || len(answer.Kvs) > 0 // even if Q1 was not answered
	}
}

// tell tells Observe, once, that a wait has begun.
func (a *attempt) tell() {
	if a.locker.options.Observe == nil || a.told {
		return
	}
	a.told = true
	a.lookWho()
	a.locker.observe(lock.Event{Kind: lock.EventWaiting, Status: lock.Status{Path: a.key.String(), Info: a.holder, Evidence: EvidenceLeaseHolds}})
}

func firstClaim(kvs []*mvccpb.KeyValue) *evidence.Claim {
	if len(kvs) == 0 {
		return nil
	}
	return readClaim(kvs[0].Value)
}

// locked describes the holder in the way.
func (a *attempt) locked() *lock.LockedError {
	return &lock.LockedError{
		Status: lock.Status{Key: a.key, Path: a.key.String(), Info: a.holder, Shared: a.holder != nil && a.holder.Mode == shared.name, State: evidence.Held, Evidence: EvidenceLeaseHolds},
		Advice: fmt.Sprintf("etcdctl get --prefix %q tells who has it, and who waits; etcdctl del KEY takes it from them, who are told", a.folder),
	}
}

// gaveUp is the error of a wait that ctx has ended.
func (a *attempt) gaveUp(ctx context.Context) error {
	if !a.waited || errors.Is(context.Cause(ctx), errClosed) {
		return a.wrap(endOf(ctx)) // nobody is known to be in the way
	}
	locked := a.locked()
	locked.Waited = time.Since(a.begun)
	locked.Cause = endOf(ctx)
	return locked
}
