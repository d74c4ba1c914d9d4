package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// listPage is how many keys are asked for at a time.
const listPage = 1000

// List yields every lock below the prefix that has holders or waiters, as it was at one
// revision. CreatedAt is since when they have wanted it. Dead ones are there until their lease
// has run out.
func (l *Locker) List(ctx context.Context) iter.Seq2[lock.Status, error] {
	return func(yield func(lock.Status, error) bool) {
		var queue []*mvccpb.KeyValue // of one lock
		var of lock.Key
		err := l.everyKey(ctx, l.options.Prefix+locksDir, func(kv *mvccpb.KeyValue) bool {
			key, _, ok := l.parse(string(kv.Key))
			switch {
			case !ok: // none of ours
				return true
			case key != of && len(queue) > 0 && !yield(l.statusOf(of, queue), nil):
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
			yield(lock.Status{}, fmt.Errorf("etcd: list: %w", err))
		case len(queue) > 0:
			yield(l.statusOf(of, queue), nil)
		}
	}
}

// Inspect looks at one lock, as List does at all. The error matches lock.ErrInvalidName for a key
// that Acquire would refuse.
func (l *Locker) Inspect(ctx context.Context, key lock.Key) (lock.Status, error) {
	folder, err := l.folder(key)
	if err != nil {
		return lock.Status{}, err
	}
	var queue []*mvccpb.KeyValue
	err = l.everyKey(ctx, folder, func(kv *mvccpb.KeyValue) bool {
		if of, _, ok := l.parse(string(kv.Key)); ok && of == key {
			queue = append(queue, kv)
		}
		return true
	})
	if err != nil {
		return lock.Status{}, fmt.Errorf("etcd: inspect %s: %w", key, err)
	}
	return l.statusOf(key, queue), nil
}

var errStop = errors.New("who lists has seen enough")

// everyKey reads all keys of a folder, in their order, so that those of one lock come together.
func (l *Locker) everyKey(ctx context.Context, dir string, each func(*mvccpb.KeyValue) bool) error {
	from, end := dir, clientv3.GetPrefixRangeEnd(dir)
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

// statusOf tells of the holders of one lock, and of its waiters, in the order of the queue.
func (l *Locker) statusOf(key lock.Key, queue []*mvccpb.KeyValue) lock.Status {
	slices.SortFunc(queue, func(a, b *mvccpb.KeyValue) int { return int(a.CreateRevision - b.CreateRevision) })
	s := lock.Status{Key: key, Path: key.String(), State: evidence.Free, Evidence: EvidenceNoLease}
	writer := false // has one been seen
	for i, kv := range queue {
		_, m, _ := l.parse(string(kv.Key))
		p := lock.Process{Info: readClaim(kv.Value)}
		if p.Info != nil {
			p.PID, p.Cmd = p.Info.PID, p.Info.Cmd
		}
		if i == 0 || m == shared && !writer {
			s.State, s.Evidence, s.Shared = evidence.Held, EvidenceLeaseHolds, m == shared
			s.Processes = append(s.Processes, p)
		} else {
			if p.Info != nil {
				p.Since = p.Info.CreatedAt
			}
			s.Waiters = append(s.Waiters, p)
		}
		writer = writer || m == exclusive
	}
	if len(s.Processes) == 1 {
		s.Info = s.Processes[0].Info
	}
	return s
}
