package lock

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Key names a lock of a Locker: Name, among the locks of one Space. Neither may be
// empty.
type Key struct {
	Space string `json:"space"`
	Name  string `json:"name"`
}

// String gives "space/name".
func (k Key) String() string { return k.Space + "/" + k.Name }

// Locker is an engine: a Dir of lock files, or a PostgreSQL database (package pg). Every
// engine waits, cancels and fails as File's methods of the same names do: contention is an
// *ErrLocked.
type Locker interface {
	// Acquire takes the lock, waiting for as long as ctx allows.
	Acquire(ctx context.Context, key Key) (Hold, error)
	// TryAcquire takes the lock if nobody has it.
	TryAcquire(ctx context.Context, key Key) (Hold, error)
	// List yields the holders and waiters of all locks. What can't be read comes as an
	// error, and the rest follows.
	List(ctx context.Context) iter.Seq2[Entry, error]
}

// SharedLocker is a Locker that has shared locks as well: any number of readers can have
// one together, but not beside an exclusive holder. A shared lock has no fence.
type SharedLocker interface {
	Locker
	// AcquireShared takes the lock as a reader, waiting for as long as ctx allows.
	AcquireShared(ctx context.Context, key Key) (Hold, error)
	// TryAcquireShared takes the lock as a reader, if no writer has it, or waits for it.
	TryAcquireShared(ctx context.Context, key Key) (Hold, error)
}

// Hold is a lock that is held. Its methods may be called by several goroutines at
// once.
type Hold interface {
	// Info returns the claim of the holder, which is this process.
	Info() LockInfo
	// Fence returns a number greater than that of every earlier holder who asked, by the rule
	// of engine.NextFence. It goes on upwards if locks move to another engine.
	Fence() (int64, error)
	// Lost is closed when the lock is found to be no longer ours.
	Lost() <-chan struct{}
	// Context returns a context that carries the hold, and ends when it is lost.
	Context(parent context.Context) context.Context
	// Release gives up the lock. Once that is done, further calls return nil. The error
	// matches ErrLost if the lock was lost.
	Release() error
}

var _ Hold = (*FileHold)(nil)

// Entry is one holder of a lock, or one waiter.
type Entry struct {
	Key Key `json:"key"`
	// Path is the lock file, absolute; empty where the lock has none.
	Path    string `json:"path,omitempty"`
	Granted bool   `json:"granted"` // false: a waiter
	// State and Evidence are those of Status.
	State    State    `json:"state"`
	Evidence Evidence `json:"evidence,omitempty"`
	// Info is the claim of the holder, or what is known of the waiter; nil if that is
	// nothing.
	Info *LockInfo `json:"who,omitempty"`
	// Gone is the claim of the holder from whom this process has the lock: see Status.
	Gone *LockInfo `json:"gone,omitempty"`
	// Note is what the holder last said of its work, and NotedAt when: see Status.
	Note    string    `json:"note,omitempty"`
	NotedAt time.Time `json:"noted_at,omitzero"`
	// Fence is the last that was given to a holder: see Status. Engines other than files leave
	// it out.
	Fence int64 `json:"fence,omitempty"`
	// Activity is what a database says of the session ("active", "idle"), and QueryStart
	// since when. For a waiter at a lock file, QueryStart is when its wait began.
	Activity   string    `json:"activity,omitempty"`
	QueryStart time.Time `json:"query_start,omitzero"`
	// BlockedBy are the pids of those in a waiter's way.
	BlockedBy []int `json:"blocked_by,omitempty"`
}

// Entries returns the holders of a lock file, one for each reader, and its waiters, one for
// each process, in the order of the queue. A free lock without waiters has none. Info is
// nil for those whose pid the kernel does not tell.
func (s Status) Entries(key Key) (all []Entry) {
	held := Entry{Key: key, Path: s.Path, Granted: true, State: s.State, Evidence: s.Evidence, Info: s.Info, Gone: s.Gone, Note: s.Note, NotedAt: s.NotedAt, Fence: s.Fence}
	switch {
	case s.State == StateFree:
	case len(s.Processes) == 0:
		all = append(all, held)
	default:
		for _, p := range s.Processes {
			e := held
			if s.Info == nil || s.Info.PID != p.PID {
				e.Info = &LockInfo{PID: p.PID, Cmd: p.Cmd}
				if s.Shared {
					e.Info.Mode = modeShared
				}
			}
			all = append(all, e)
		}
	}
	var blockers []int
	for _, e := range all {
		if e.Info != nil && e.State != StateDead {
			blockers = append(blockers, e.Info.PID)
		}
	}
	for _, w := range s.Waiters {
		e := Entry{Key: key, Path: s.Path, State: StateHeld, Evidence: EvidenceKernelLockHeld, QueryStart: w.Since, BlockedBy: blockers}
		if w.PID > 0 {
			e.Info = &LockInfo{PID: w.PID, Cmd: w.Cmd}
		}
		all = append(all, e)
	}
	return all
}

// AcquireWithin acquires a lock with a limit, however short: 0 tries once, and a negative
// limit waits as long as ctx allows. When the limit passes, the error matches ErrTimeout.
func AcquireWithin(ctx context.Context, l Locker, key Key, limit time.Duration) (Hold, error) {
	return within(ctx, limit,
		func(ctx context.Context) (Hold, error) { return l.Acquire(ctx, key) },
		func(ctx context.Context) (Hold, error) { return l.TryAcquire(ctx, key) })
}

// AcquireSharedWithin is AcquireWithin for a shared lock.
func AcquireSharedWithin(ctx context.Context, l SharedLocker, key Key, limit time.Duration) (Hold, error) {
	return within(ctx, limit,
		func(ctx context.Context) (Hold, error) { return l.AcquireShared(ctx, key) },
		func(ctx context.Context) (Hold, error) { return l.TryAcquireShared(ctx, key) })
}

// Do is File.Do for any engine.
func Do(ctx context.Context, l Locker, key Key, fn func(context.Context) error) error {
	held, err := l.Acquire(ctx, key)
	return do(ctx, held, err, fn)
}

// DoShared is File.DoShared for any engine that has shared locks.
func DoShared(ctx context.Context, l SharedLocker, key Key, fn func(context.Context) error) error {
	held, err := l.AcquireShared(ctx, key)
	return do(ctx, held, err, fn)
}

// TryDo is File.TryDo for any engine.
func TryDo(ctx context.Context, l Locker, key Key, fn func(context.Context) error) (acquired bool, err error) {
	held, err := l.TryAcquire(ctx, key)
	return tryDo(ctx, held, err, fn)
}

// AcquireKeys acquires several locks of one engine, all or none, in the order of their
// keys. So two callers that name the same keys in opposite orders never wait for each
// other. A key that is named twice is ErrInvalidName. See AcquireAll.
func AcquireKeys(ctx context.Context, l Locker, keys ...Key) (*Set, error) {
	ordered := slices.SortedFunc(slices.Values(keys), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Name, b.Name))
	})
	for i, key := range ordered {
		if i > 0 && key == ordered[i-1] {
			return nil, fmt.Errorf("%w: %s is in the set twice", ErrInvalidName, key)
		}
	}
	s := &Set{}
	for _, key := range ordered {
		held, err := l.Acquire(ctx, key)
		if err != nil {
			return nil, joined(err, s.Release())
		}
		s.held = append(s.held, held)
		// Two keys may be one lock, to an engine that shortens them or a folder that
		// ignores case. Without this context we would wait for ourselves. It also ends the
		// wait for the others when one lock is lost.
		ctx = held.Context(ctx)
	}
	return s, nil
}
