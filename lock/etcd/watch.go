package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// untilGone waits until a key has gone: Q5.
func (le *lease) untilGone(ctx context.Context, r rival) error {
	ctx, done := both(ctx, le.ctx)
	defer done()
	for tries := 0; ; tries++ {
		begun := time.Now()
		if le.watch(ctx, r.key, r.at) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(begun) > time.Second {
			tries = 0
		}
		pause(ctx, tries)
		var still bool
		err := le.locker.step(ctx, func(ctx context.Context) error {
			answer, err := le.locker.client.Get(ctx, r.key, clientv3.WithKeysOnly())
			if err == nil {
				still, r.at = there(answer.Kvs, r.created), answer.Header.Revision
			}
			return err
		})
		if err != nil || !still {
			return err
		}
	}
}

// watch reports whether the key was seen to go. It returns false when it is over, and that
// can't be told.
func (le *lease) watch(ctx context.Context, key string, at int64) (gone bool) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), le.ttl)
	defer cancel()
	for answer := range le.locker.client.Watch(ctx, key, clientv3.WithRev(at+1), clientv3.WithFilterPut()) {
		for _, e := range answer.Events {
			if e.Type == mvccpb.DELETE {
				return true
			}
		}
		if answer.Err() != nil {
			return false
		}
	}
	return false
}

// remove deletes a key of ours, and tells whether it was there.
func (le *lease) remove(ctx context.Context, own string, created int64) (was bool, err error) {
	asked := 0
	ctx, done := both(ctx, le.ctx)
	defer done()
	err = le.locker.step(ctx, func(ctx context.Context) error {
		asked++
		answer, err := le.locker.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(own), "=", created)).Then(clientv3.OpDelete(own)).Commit()
		// A request before this one may have deleted it. That somebody else has, just then,
		// is not found out.
		was = err == nil && (asked > 1 || answer.Succeeded)
		return err
	})
	return was, err
}

// removeAnyhow goes on until the key is deleted, or has gone with the lease.
func (le *lease) removeAnyhow(own string, created int64, slot int) {
	for le.ctx.Err() == nil {
		if _, err := le.remove(le.ctx, own, created); err == nil {
			le.freeSlot(slot)
			return
		}
		pause(le.ctx, 10)
	}
}
