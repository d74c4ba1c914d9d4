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
		if le.watch(ctx, r) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(begun) > time.Second {
			tries = 0
		}
		pause(ctx, tries)
		still, at, err := le.stillThere(ctx, r)
		if err != nil || !still {
			return err
		}
		r.at = at
	}
}

// stillThere looks for a key, and says at which revision.
func (le *lease) stillThere(ctx context.Context, r rival) (still bool, at int64, err error) {
	err = le.locker.step(ctx, func(ctx context.Context) error {
		answer, err := le.locker.client.Get(ctx, r.key, clientv3.WithKeysOnly())
		if err == nil {
			still, at = there(answer.Kvs, r.created), answer.Header.Revision
		}
		return err
	})
	return still, at, err
}

// watch reports whether the key was seen to go. It returns false when the watch ends without
// that.
//
// A member reports what happened before a watch began only every 100 ms (etcd 3.4 to 3.6). So
// if anything has happened since the key was seen, it is looked for.
func (le *lease) watch(ctx context.Context, r rival) (gone bool) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), le.ttl)
	defer cancel()
	for answer := range le.locker.client.Watch(ctx, r.key, clientv3.WithRev(r.at+1), clientv3.WithFilterPut(), clientv3.WithCreatedNotify()) {
		for _, e := range answer.Events {
			if e.Type == mvccpb.DELETE {
				return true
			}
		}
		if answer.Err() != nil {
			return false
		}
		if answer.Created && answer.Header.Revision > r.at {
			if still, _, err := le.stillThere(ctx, r); err == nil && !still {
				return true
			}
		}
	}
	return false
}

// remove deletes a key of ours (Q4, E3), and reports whether it was there. Its context must end
// with the lease.
func (le *lease) remove(ctx context.Context, p *place) (was bool, err error) {
	err = le.locker.step(ctx, func(ctx context.Context) (err error) {
		if p.doubt {
			was, err = le.removeDoubtful(ctx, p)
		} else {
			var answer *clientv3.DeleteResponse
			if answer, err = le.locker.client.Delete(ctx, p.own); err == nil {
				was = answer.Deleted > 0
			}
		}
		p.spoiled = p.spoiled || err != nil
		return err
	})
	switch {
	case err != nil:
	case p.spoiled:
		was = true // a request before this one may have deleted it
	case !p.doubt:
		le.freeSlot(p.slot)
	}
	return was, err
}

// removeDoubtful is E3, once.
func (le *lease) removeDoubtful(ctx context.Context, p *place) (was bool, err error) {
	answer, err := le.locker.client.Txn(ctx).Then(
		clientv3.OpDelete(p.own, clientv3.WithPrevKV()),
		clientv3.OpPut(le.self, le.value, clientv3.WithLease(le.id)),
	).Commit()
	if err != nil {
		if codeOf(err) == codes.NotFound {
			le.lose(errRevoked)
		}
		return false, err
	}
	le.raiseEpoch(answer.Header.Revision)
	return there(answer.Responses[0].GetResponseDeleteRange().PrevKvs, p.created), nil
}

// removeAnyhow goes on until the key is deleted, or has gone with the lease.
func (le *lease) removeAnyhow(p *place) {
	for le.ctx.Err() == nil {
		if _, err := le.remove(le.ctx, p); err == nil {
			return
		}
		pause(le.ctx, 10)
	}
}
