package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// untilGone waits until a key has gone that was there at this revision: Q5.
func (le *lease) untilGone(ctx context.Context, key string, at int64) error {
	ctx, done := both(ctx, le.ctx)
	defer done()
	for tries := 0; ; tries++ {
		begun := time.Now()
		if le.watch(ctx, key, at) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(begun) > time.Second {
			tries = 0
		}
		pause(ctx, tries)
		var there bool
		err := le.locker.step(ctx, func(ctx context.Context) error {
			answer, err := le.locker.client.Get(ctx, key, clientv3.WithKeysOnly())
			if err == nil {
				there, at = len(answer.Kvs) > 0, answer.Header.Revision
			}
			return err
		})
		if err != nil || !there {
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
func (le *lease) remove(ctx context.Context, own string) (was bool, err error) {
	asked := 0
	ctx, done := both(ctx, le.ctx)
	defer done()
	err = le.locker.step(ctx, func(ctx context.Context) error {
		asked++
		answer, err := le.locker.client.Delete(ctx, own)
		// A request before this one may have deleted it. That somebody else has, just then,
		// is not found out.
		was = err == nil && (asked > 1 || answer.Deleted > 0)
		return err
	})
	return was, err
}

// removeAnyhow goes on until the key is deleted, or has gone with the lease.
func (le *lease) removeAnyhow(own string) {
	for le.ctx.Err() == nil {
		if _, err := le.remove(le.ctx, own); err == nil {
			return
		}
		pause(le.ctx, 10)
	}
}
