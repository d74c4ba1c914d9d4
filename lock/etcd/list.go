package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/lock"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// listPage is how many keys are asked for at a time.
const listPage = 1000

// List yields every lock below the prefix that somebody has or waits for, as it was at one
// revision. CreatedAt is since when they have wanted it. Those who died are there until
// their lease has run out.
func (l *Locker) List(ctx context.Context) iter.Seq2[lock.Entry, error] {
	return func(yield func(lock.Entry, error) bool) {
		var queue []*mvccpb.KeyValue // of one lock
		var of lock.Key
		err := l.everyKey(ctx, locksDir, func(kv *mvccpb.KeyValue) bool {
			key, _, ok := l.parse(string(kv.Key))
			switch {
			case !ok: // none of ours
				return true
			case key != of && !l.yieldLock(of, queue, yield):
				return false
			case key != of:
				of, queue = key, nil
			}
			queue = append(queue, kv)
			return true
		})
		switch {
		case err == errStop:
		case err != nil:
			yield(lock.Entry{}, fmt.Errorf("etcd: list: %w", err))
		default:
			l.yieldLock(of, queue, yield)
		}
	}
}

var errStop = errors.New("who lists has seen enough")

// everyKey reads all keys of a folder, in their order, so that those of one lock come together.
func (l *Locker) everyKey(ctx context.Context, dir string, each func(*mvccpb.KeyValue) bool) error {
	from, end := l.options.Prefix+dir, clientv3.GetPrefixRangeEnd(l.options.Prefix+dir)
	for revision := int64(0); ; {
		if ctx.Err() != nil {
			return endOf(ctx)
		}
		var page *clientv3.GetResponse
		err := l.step(ctx, func(ctx context.Context) (err error) {
			page, err = l.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(listPage), clientv3.WithRev(revision))
			return err
		})
		if err != nil {
			if ctx.Err() != nil {
				err = endOf(ctx)
			}
			return err
		}
		revision = page.Header.Revision
		for _, kv := range page.Kvs {
			if !each(kv) {
				return errStop
			}
		}
		if !page.More {
			return nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// yieldLock yields the holders of one lock, and then its waiters, in the order of the queue.
func (l *Locker) yieldLock(key lock.Key, queue []*mvccpb.KeyValue, yield func(lock.Entry, error) bool) bool {
	slices.SortFunc(queue, func(a, b *mvccpb.KeyValue) int { return int(a.CreateRevision - b.CreateRevision) })
	var holders []int // their pids
	var writer bool   // has one been seen
	for i, kv := range queue {
		_, m, _ := l.parse(string(kv.Key))
		e := lock.Entry{Key: key, Granted: i == 0 || m == shared && !writer, State: lock.StateHeld, Evidence: EvidenceLeaseHolds, Info: readClaim(kv.Value)}
		writer = writer || m == exclusive
		switch {
		case !e.Granted:
			e.BlockedBy = holders
		case e.Info != nil:
			holders = append(holders, e.Info.PID)
		}
		if e.Info != nil && !e.Granted {
			e.QueryStart = e.Info.CreatedAt
		}
		if !yield(e, nil) {
			return false
		}
	}
	return true
}
