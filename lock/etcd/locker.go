package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Options say which cluster, and how. Client must be set.
type Options struct {
	// Client leads to the cluster, with the users, TLS and time limits that it was made
	// with. It stays the caller's, to close after the Locker. With a DialKeepAliveTime of
	// some seconds a connection that is cut is found out as soon.
	Client *clientv3.Client
	// Prefix is what all keys begin with: "holdfast/" if it is empty. All programs that share
	// locks must name the same one.
	Prefix string
	// Cmd says what the holder is doing: evidence.Claim.Cmd.
	Cmd string
	// Lease is how long the cluster keeps the locks of a process that it has not heard of: a
	// second or more, in whole seconds; 0 means ten. The cluster may want more.
	Lease time.Duration
	// Observe is told what becomes of the locks.
	Observe func(lock.Event)
}

// Locker is the locks of one cluster below one prefix. Its methods may be called by several
// goroutines at once.
type Locker struct {
	options Options
	client  *clientv3.Client
	host    string
	same    string // in all claims
	cluster uint64
	now     func() instant
	// watchAfter is when a hold begins to be watched; releasePatience bounds a release.
	watchAfter, releasePatience time.Duration

	turn  chan struct{} // to put something in is to have the right to change lease
	lease *lease

	closing context.Context // ends with Close
	end     context.CancelCauseFunc
	mu      sync.Mutex // guards closed, and orders users.Add before users.Wait
	closed  bool
	users   sync.WaitGroup // acquisitions, holds, and keys that are still to be deleted
	tasks   sync.WaitGroup // of leases
}

var _ lock.SharedLocker = (*Locker)(nil)

const (
	defaultPrefix = "holdfast/"
	defaultLease  = 10 * time.Second
	minLease      = time.Second
)

// Open asks the cluster for a lease, and keeps it alive until Close. A right that is missing,
// say, is an error here. So is a lease of less than a second, or no Client
// (lock.ErrInvalidName).
func Open(ctx context.Context, o Options) (*Locker, error) { return open(ctx, o, readClock) }

func open(ctx context.Context, o Options, clock func() instant) (*Locker, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("etcd: %w: Options.Client is missing", lock.ErrInvalidName)
	case o.Lease == 0:
		o.Lease = defaultLease
	case o.Lease < minLease:
		return nil, fmt.Errorf("etcd: %w: a lease of %v; at least %v", lock.ErrInvalidName, o.Lease, minLease)
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	host, _ := os.Hostname()
	l := &Locker{options: o, client: o.Client, host: host, now: clock, turn: make(chan struct{}, 1),
		watchAfter: 100 * time.Millisecond, releasePatience: 5 * time.Second}
	l.same = l.sameInAll()
	l.closing, l.end = context.WithCancelCause(context.Background())
	if _, err := l.leased(ctx); err != nil {
		l.Close()
		return nil, fmt.Errorf("etcd: open: %w", err)
	}
	return l, nil
}

// Close waits for holds to be released, and ends the lease. Waiters, and later callers, get
// an error.
func (l *Locker) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end(errClosed)
	l.users.Wait()
	l.turn <- struct{}{}
	if l.lease != nil {
		l.lease.lose(errClosed)
		l.lease = nil
	}
	<-l.turn
	l.tasks.Wait()
}

// use makes Close wait until the caller calls users.Done.
func (l *Locker) use() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	l.users.Add(1)
	return nil
}

// patience is how long a step is tried. It is no less than the usual lease: a short one is
// there to follow the dead soon, but a cluster that elects a leader takes its time.
func (l *Locker) patience() time.Duration { return max(l.options.Lease, defaultLease) }

// limit bounds one request, which then ends as cancelled: a quarter of the lease, and twice as
// long each time that it is tried again. The member is not told the limit: that has a price,
// and no use.
func (l *Locker) limit(ctx context.Context, tries int) (limited context.Context, done func()) {
	limited, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	late := time.AfterFunc(min(l.options.Lease/4<<min(tries, 4), l.patience()/4), cancel)
	return limited, func() {
		late.Stop()
		cancel()
	}
}

// pause is how long to wait before the same is asked again.
func pause(ctx context.Context, tries int) {
	most := min(500*time.Millisecond, 10*time.Millisecond<<min(tries, 6))
	select {
	case <-time.After(most/2 + rand.N(most/2)):
	case <-ctx.Done():
	}
}

// step asks until it has an answer, the context has ended, the error says that asking again
// is of no use, or its patience is at an end. ask must be such that asking twice does no
// harm. Its context ends when the answer has taken too long; members that have lost their
// leader say so at once.
func (l *Locker) step(ctx context.Context, ask func(context.Context) error) error {
	for begun, tries := time.Now(), 0; ; tries++ {
		limited, done := l.limit(ctx, tries)
		err := ask(limited)
		done()
		switch {
		case err == nil || definite(err):
			return err
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), err)
		case time.Since(begun) > l.patience():
			return fmt.Errorf("%w: %v", errSilent, err)
		}
		pause(ctx, tries)
	}
}

// both returns a context that ends with ctx, and with other, whose cause it takes.
func both(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// sameInAll is what all claims of the Locker say, as a part of a JSON object.
func (l *Locker) sameInAll() string {
	text, err := json.Marshal(struct {
		PID      int    `json:"pid"`
		Cmd      string `json:"cmd,omitempty"`
		Hostname string `json:"hostname,omitempty"`
	}{os.Getpid(), l.options.Cmd, l.host})
	if err != nil {
		panic(err) // it has nothing that could fail
	}
	return strings.Trim(string(text), "{}")
}

// claim is what a key says of its owner. It is put together by hand, as marshalling it takes 7 %
// of an acquisition's time.
func (l *Locker) claim(id string, m mode) (evidence.Claim, string) {
	info := evidence.Claim{
		PID: os.Getpid(), CreatedAt: time.Now().UTC(), Cmd: l.options.Cmd, Nonce: id, Hostname: l.host, Mode: m.name,
	}
	text := "{" + l.same + `,"created_at":"` + info.CreatedAt.Format(time.RFC3339Nano) + `","nonce":"` + id + `"`
	if m.name != "" {
		text += `,"mode":"` + m.name + `"`
	}
	return info, text + "}"
}

// readClaim is the way back; nil for what is none.
func readClaim(value []byte) *evidence.Claim {
	info := &evidence.Claim{}
	if json.Unmarshal(value, info) != nil || info.PID <= 0 {
		return nil
	}
	return info
}

func (l *Locker) observe(e lock.Event) {
	if l.options.Observe != nil {
		e.Cmd = l.options.Cmd
		l.options.Observe(e)
	}
}
