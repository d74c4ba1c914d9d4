package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The fence of a lock is a key, in decimal, under no lease, from when a holder first asks for
// one. It is read, and then raised by a transaction. That does nothing unless the key is as it
// was read, and the lock still the holder's. So a request that is sent again, or arrives late,
// gives no number out twice: what it has raised is raised once more.

// Fence returns a greater number than every earlier holder of this lock was given:
// engine.NextFence. The first call asks for it, within five seconds. After a loss it is
// lock.ErrLost. If a number out of all reason lies in the cluster, the error has the command
// that cures it. A shared lock has no fence (errors.ErrUnsupported).
func (h *Hold) Fence() (int64, error) {
	if h.info.Mode == shared.name {
		return 0, fmt.Errorf("etcd: fence of %s: readers have none: %w", h.key, errors.ErrUnsupported)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fence != 0 {
		return h.fence, nil
	}
	if h.over {
		return 0, fmt.Errorf("etcd: fence of %s: %w", h.key, errReleased)
	}
	fence, err := h.raiseFence()
	switch {
	case h.lease.ctx.Err() != nil:
		h.lose(context.Cause(h.lease.ctx))
	case errors.Is(err, errDeleted):
		h.lose(err)
	}
	select {
	case <-h.Lost():
		err = context.Cause(h.contexts.Context(context.Background()))
	default:
	}
	if err != nil {
		return 0, fmt.Errorf("etcd: fence of %s: %w", h.key, err)
	}
	h.fence = fence
	return fence, nil
}

var errReleased = errors.New("the lock was released")

func (h *Hold) raiseFence() (int64, error) {
	if !h.lease.alive() {
		return 0, context.Cause(h.lease.ctx)
	}
	ctx, cancel := context.WithTimeout(h.lease.ctx, h.locker.releasePatience)
	defer cancel()
	l, name := h.locker, h.locker.fenceKey(h.key)
	for {
		var last *clientv3.GetResponse
		err := l.step(ctx, func(ctx context.Context) (err error) {
			last, err = l.client.Get(ctx, name)
			return err
		})
		if err != nil {
			return 0, err
		}
		fence, seen, err := nextFence(last.Kvs)
		if err != nil {
			return 0, fmt.Errorf("%s: %w; to begin anew, with the time of day: etcdctl del '%s'", name, err, name)
		}
		var answer *clientv3.TxnResponse
		err = l.step(ctx, func(ctx context.Context) (err error) {
			answer, err = l.client.Txn(ctx).If(h.IsOwner(), clientv3.Compare(clientv3.ModRevision(name), "=", seen)).
				Then(clientv3.OpPut(name, strconv.FormatInt(fence, 10))).
				Else(clientv3.OpGet(h.own, clientv3.WithKeysOnly())).Commit()
			return err
		})
		switch {
		case err != nil:
			return 0, err
		case answer.Succeeded:
			return fence, nil
		case !there(answer.Responses[0].GetResponseRange().Kvs, h.created):
			return 0, errDeleted
		}
	}
}

// nextFence returns the fence that follows what was read, and the revision of that.
func nextFence(read []*mvccpb.KeyValue) (fence, seen int64, err error) {
	var last int64
	if len(read) > 0 {
		seen = read[0].ModRevision
		if last, err = strconv.ParseInt(string(read[0].Value), 10, 64); err != nil || last < 0 {
			return 0, 0, fmt.Errorf("%q is no fence: delete the key to begin anew, with the time of day, while nobody has the lock", read[0].Value)
		}
	}
	fence, err = engine.NextFence(last, time.Now())
	return fence, seen, err
}

// fenceKey is where the last fence of a lock is.
func (l *Locker) fenceKey(key lock.Key) string {
	return l.options.Prefix + fencesDir + url.PathEscape(key.Space) + "/" + url.PathEscape(key.Name)
}

// minUnused is the least age at which a fence may be forgotten.
const minUnused = 24 * time.Hour

// PurgeFences forgets the fences that were given so long ago, a day or more, and returns how
// many: there is one for each lock whose holder has ever asked. The next ones go on from the
// time of day, and only a clock that is set back by more could rewind them. It may be called
// at any time.
func (l *Locker) PurgeFences(ctx context.Context, unused time.Duration) (n int64, err error) {
	if unused < minUnused {
		return 0, fmt.Errorf("etcd: %w: fences unused for %v; at least %v", lock.ErrInvalidName, unused, minUnused)
	}
	before := time.Now().Add(-unused).UnixMicro()
	var failed error
	err = l.everyKey(ctx, l.options.Prefix+fencesDir, func(kv *mvccpb.KeyValue) bool {
		if last, err := strconv.ParseInt(string(kv.Value), 10, 64); err != nil || last >= before {
			return true
		}
		failed = l.step(ctx, func(ctx context.Context) error {
			answer, err := l.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)).
				Then(clientv3.OpDelete(string(kv.Key))).Commit()
			if err == nil && answer.Succeeded {
				n++
			}
			return err
		})
		return failed == nil
	})
	if failed != nil { // so that the rest was not looked at
		err = failed
	}
	if err != nil {
		return n, fmt.Errorf("etcd: purge fences: %w", err)
	}
	return n, nil
}
