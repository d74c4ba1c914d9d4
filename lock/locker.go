package lock

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
)

// Key names a lock of a Locker: Name, among the locks of one Space. Neither may be empty.
type Key struct {
	Space string `json:"space"`
	Name  string `json:"name"`
}

// String gives "space/name".
func (k Key) String() string { return k.Space + "/" + k.Name }

// Locker is an engine: a Dir of lock files, or a PostgreSQL database (package pg). Every
// engine waits, cancels and fails as File's methods of the same names do: contention is a
// *LockedError.
type Locker interface {
	// Acquire takes the lock, waiting for as long as ctx allows.
	Acquire(ctx context.Context, key Key) (Hold, error)
	// TryAcquire takes the lock if nobody has it.
	TryAcquire(ctx context.Context, key Key) (Hold, error)
	// Inspect looks at one lock, and changes nothing: who has it, who waits, and how that is
	// known, as List would say it. Nobody's lock is evidence.Free. A key that can't be acquired is
	// the error that Acquire returns. The answer may be out of date when it arrives.
	Inspect(ctx context.Context, key Key) (Status, error)
	// List yields each lock that somebody has, died holding, or waits for. What can't be read
	// comes as an error, and the rest follows.
	List(ctx context.Context) iter.Seq2[Status, error]
}

// SharedLocker is a Locker that has shared locks as well: any number of readers can hold one
// together, but not beside an exclusive holder. A shared lock has no fence.
type SharedLocker interface {
	Locker
	// AcquireShared takes the lock as a reader, waiting for as long as ctx allows.
	AcquireShared(ctx context.Context, key Key) (Hold, error)
	// TryAcquireShared takes the lock as a reader, if no writer has it, or waits for it.
	TryAcquireShared(ctx context.Context, key Key) (Hold, error)
}

// Hold is a lock that is held. Its methods may be called by several goroutines at once.
type Hold interface {
	// Info returns the claim of the holder, which is this process.
	Info() evidence.Claim
	// Fence returns a number greater than that of every earlier holder that asked, by the rule of
	// engine.NextFence. It goes on upwards if locks move to another engine.
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

// AcquireWithin acquires a lock with a limit, however short: 0 tries once, and a negative
// limit waits as long as ctx allows. When the limit passes, the error matches ErrTimeout.
func AcquireWithin(ctx context.Context, l Locker, key Key, limit time.Duration) (Hold, error) {
	return within(ctx, limit,
		func(ctx context.Context) (Hold, error) { return l.Acquire(ctx, key) },
		func(ctx context.Context) (Hold, error) { return l.TryAcquire(ctx, key) })
}

// Readers returns an engine whose locks are the shared ones of l: for Do, AcquireWithin and
// AcquireKeys.
func Readers(l SharedLocker) Locker { return readers{l} }

type readers struct{ SharedLocker }

func (r readers) Acquire(ctx context.Context, key Key) (Hold, error) {
	return r.AcquireShared(ctx, key)
}

func (r readers) TryAcquire(ctx context.Context, key Key) (Hold, error) {
	return r.TryAcquireShared(ctx, key)
}

// Do is File.Do for any engine.
func Do(ctx context.Context, l Locker, key Key, fn func(context.Context, Hold) error) error {
	held, err := l.Acquire(ctx, key)
	return do(ctx, held, err, fn)
}

// TryDo is File.TryDo for any engine.
func TryDo(ctx context.Context, l Locker, key Key, fn func(context.Context, Hold) error) (acquired bool, err error) {
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
			return nil, fail.Join(err, s.Release())
		}
		s.held = append(s.held, held)
		// Two keys may be one lock, to an engine that shortens them or a folder that
		// ignores case. Without this context we would wait for ourselves. It also ends the
		// wait for the others when one lock is lost.
		ctx = held.Context(ctx)
	}
	return s, nil
}
