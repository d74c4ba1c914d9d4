package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/spf13/cobra"
)

// server is an engine whose locks are held by sessions of a server: of a database, or leases of
// a cluster. Its List yields the entries of one lock together, its holders first.
type server interface {
	lock.SharedLocker
	// Name tells people which one it is, without anything that is secret.
	Name() string
	// Holders returns the sessions that have a lock. The error matches lock.ErrInvalidName for a
	// key that can't be a lock's.
	Holders(ctx context.Context, key lock.Key) ([]session, error)
	// End ends a session that Holders has returned, and no other that has its pid by now. It
	// reports whether it was still there.
	End(ctx context.Context, s session) (there bool, err error)
	// LastFence returns the last fence of a lock; 0 if none is known.
	LastFence(ctx context.Context, key lock.Key) (int64, error)
	words() *words
	// Close is called when all locks are released.
	Close()
}

// session is a session of a server that has a lock.
type session struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started,omitzero"` // if it may be seen
	Cmd     string    `json:"cmd,omitempty"`
	Host    string    `json:"hostname,omitempty"`
	Locks   int       `json:"locks"` // how many end with it
	// nonce tells it from another that has its pid later; "" if that can't be seen.
	nonce string
}

// connectPatience bounds the time until a server has answered, answerPatience that until it
// answers a question.
const (
	connectPatience = 30 * time.Second
	answerPatience  = 10 * time.Second
)

// engines is where the locks of a call are: in files, if nothing else is said.
type engines struct{ pg, etcd *string }

func engineFlags(c *cobra.Command) *engines {
	e := &engines{}
	add := func(name, usage string, to **string) {
		c.Flags().Func(name, usage, func(text string) error {
			*to = &text
			return nil
		})
	}
	add("pg", "locks in PostgreSQL: `CONN` is a URL, or KEY=VALUEs", &e.pg)
	add("etcd", "locks in etcd: `HOST:PORT,...`", &e.etcd)
	return e
}

func (e *engines) inServer() bool { return e.pg != nil || e.etcd != nil }

// wrongName says why a lock can't be called so.
func (e *engines) wrongName(name string) error {
	switch key := keyOf(name); {
	case !e.inServer():
		return noLock(name)
	case key.Space != "" && key.Name != "":
		return nil
	}
	return misused("%s is no name of a lock in a database, where LOCK is SPACE/NAME, such as deploy/production", visible(strconv.Quote(name)))
}

// open opens what has the locks: these files, or a server. Call leave when they are released.
func (e *engines) open(f lock.File) (at locks, leave func(), err error) {
	if !e.inServer() {
		return files{f}, func() {}, nil
	}
	d, err := e.connect(f.Cmd)
	if err != nil {
		return nil, nil, err
	}
	return d, d.Close, nil
}

// connect opens the server. Its errors have nothing secret in them.
func (e *engines) connect(label string) (*database, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectPatience)
	defer cancel()
	var s server
	var err error
	switch {
	case e.pg != nil && e.etcd != nil:
		err = misused("--pg and --etcd exclude each other")
	case e.pg != nil:
		s, err = openPG(ctx, *e.pg, label)
	default:
		s, err = openEtcd(ctx, *e.etcd, label)
	}
	if err != nil {
		return nil, err
	}
	return &database{server: s, ours: map[int]bool{}}, nil
}

// database is the locks of a server, by keys.
type database struct {
	server
	mu   sync.Mutex
	ours map[int]bool // the sessions that have had locks of ours, by pid
}

// keyOf reads SPACE/NAME.
func keyOf(name string) (key lock.Key) {
	key.Space, key.Name, _ = strings.Cut(name, "/")
	return key
}

func (d *database) acquire(ctx context.Context, names []string, shared, try bool) ([]hold, error) {
	return acquireWhole(ctx, d, names, try, func() (held []hold, err error) {
		l := asked{d, shared, try, &held}
		var keys []lock.Key
		for _, name := range names {
			keys = append(keys, keyOf(name))
		}
		if _, err := lock.AcquireKeys(ctx, l, keys...); err != nil {
			return nil, err
		}
		return held, nil
	})
}

// asked is the locks as an engine whose holds are holdfast's. It acquires them as it is asked,
// and notes each in held.
type asked struct {
	*database
	shared, try bool
	held        *[]hold
}

func (l asked) Acquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	acquire := l.server.Acquire
	switch {
	case l.shared && l.try:
		acquire = l.server.TryAcquireShared
	case l.shared:
		acquire = l.server.AcquireShared
	case l.try:
		acquire = l.server.TryAcquire
	}
	h, err := acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ours[h.Info().PID] = true
	*l.held = append(*l.held, sessionHold{h, key})
	return sessionHold{h, key}, nil
}

func (l asked) TryAcquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	l.try = true
	return l.Acquire(ctx, key)
}

func (d *database) engine(name string) (lock.Locker, lock.Key) {
	return asked{database: d, held: new([]hold)}, keyOf(name)
}

// sessionHold is a lock that a session has for us. Children can't hold it too, and the
// database remembers no earlier holder.
type sessionHold struct {
	lock.Hold
	key lock.Key
}

func (h sessionHold) Path() string                            { return h.key.String() }
func (h sessionHold) Predecessor() (*lock.Predecessor, error) { return nil, nil }
func (h sessionHold) Attach(*exec.Cmd) error                  { return errors.ErrUnsupported }
func (h sessionHold) Environ(env []string) []string           { return env }
func (h sessionHold) LeaveToChildren() (bool, error)          { return false, h.Release() }

func (d *database) inspect(ctx context.Context, name string) (lock.Status, error) {
	status, _, err := d.look(ctx, name)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		status.Fence, err = d.LastFence(ctx, keyOf(name))
	}
	return status, err
}

// look returns a lock, and the sessions that have it. If there is one, the nonce of its claim
// is that of the session.
func (d *database) look(ctx context.Context, name string) (lock.Status, []session, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	sessions, err := d.Holders(ctx, keyOf(name))
	if err != nil {
		return lock.Status{}, nil, err
	}
	status, err := d.Inspect(ctx, keyOf(name))
	status = told(status)
	for _, s := range sessions {
		if status.Info != nil && status.Info.PID == s.PID {
			status.Info.Nonce = s.nonce
		}
	}
	return status, sessions, err
}

// end ends a session if it still has a lock: it may have released that since the look. It
// reports whether that was so.
func (d *database) end(ctx context.Context, name string, s session) (had bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	sessions, err := d.Holders(ctx, keyOf(name))
	if err != nil || !slices.ContainsFunc(sessions, func(now session) bool { return now.nonce == s.nonce }) {
		return false, err
	}
	return d.End(ctx, s)
}

func (d *database) refusal(ctx context.Context, e *lock.LockedError) lock.Status {
	if now, err := d.inspect(ctx, e.Path); err == nil && now.State != evidence.Free {
		return now
	}
	return e.Status
}

func (d *database) isOurs(s lock.Status) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.Info != nil {
		return d.ours[s.Info.PID]
	}
	return len(s.Processes) == 1 && d.ours[s.Processes[0].PID]
}

// await has the lock for an instant.
func (d *database) await(ctx context.Context, name string, try bool) error {
	if try {
		s, err := d.inspect(ctx, name)
		return asRefusal(s, err)
	}
	held, err := d.Acquire(ctx, keyOf(name))
	if err != nil {
		return err
	}
	return held.Release()
}

// told is a lock as the command tells of it: a holder that is known is named once.
func told(s lock.Status) lock.Status {
	if s.Info != nil {
		s.Processes = nil
	}
	return s
}

// List yields the locks as inspect gives them.
func (d *database) List(ctx context.Context) iter.Seq2[lock.Status, error] {
	return func(yield func(lock.Status, error) bool) {
		for s, err := range d.server.List(ctx) {
			if !yield(told(s), err) {
				return
			}
		}
	}
}

// endAdvice says what a person can do about a lock of a session's.
func endAdvice(s lock.Status, flag string) []string {
	advice := []string{"wait for it, or end that session, with all that it holds:"}
	if len(s.Processes) > 1 {
		advice[0] = "wait for them, or end those sessions, with all that they hold:"
	}
	if name, ok := shellWord(s.Path); ok && s.Path != "" {
		advice = append(advice, fmt.Sprintf("  holdfast break %s ... %s", flag, name))
	}
	return advice
}
