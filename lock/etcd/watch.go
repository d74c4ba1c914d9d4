package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
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

// remove deletes a key of ours (Q4, E3), and tells whether it was there.
func (le *lease) remove(ctx context.Context, p place) (was bool, err error) {
	asked := 0
	ctx, done := both(ctx, le.ctx)
	defer done()
	err = le.locker.step(ctx, func(ctx context.Context) error {
		asked++
		txn := le.locker.client.Txn(ctx)
		if p.doubt {
			txn = txn.Then(clientv3.OpDelete(p.own, clientv3.WithPrevKV()), clientv3.OpPut(le.self, le.value, clientv3.WithLease(le.id)))
		} else {
			txn = txn.If(clientv3.Compare(clientv3.CreateRevision(p.own), "=", p.created)).Then(clientv3.OpDelete(p.own))
		}
		answer, err := txn.Commit()
		switch {
		case err != nil && p.doubt && codeOf(err) == codes.NotFound:
			le.lose(errRevoked)
		case err != nil:
		case asked > 1: // a request before this one may have deleted it
			was = true
		case p.doubt:
			was = there(answer.Responses[0].GetResponseDeleteRange().PrevKvs, p.created)
		default:
			was = answer.Succeeded
		}
		if err == nil && p.doubt {
			le.raiseEpoch(answer.Header.Revision)
		}
		return err
	})
	if err == nil && !p.doubt { // a late deletion can't harm a later key
		le.freeSlot(p.slot)
	}
	return was, err
}

// removeAnyhow goes on until the key is deleted, or has gone with the lease.
func (le *lease) removeAnyhow(p place) {
	for le.ctx.Err() == nil {
		if _, err := le.remove(le.ctx, p); err == nil {
			return
		}
		pause(le.ctx, 10)
	}
}
