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
)

// database is the locks of one, by keys.
type database struct {
	Database
	mu   sync.Mutex
	ours map[int]bool // the sessions that have had locks of ours, by pid
}

var databaseWords = words{
	process: "backend", from: "from", advice: databaseAdvice,
	nobody:    "not known: it is no session's",
	lost:      "the session that had it has ended, or can't be heard any more",
	lostWhy:   "the server or the network went away, or someone ended that session",
	lostLater: "the server or the network went away while the command ran, or someone ended that session",
	leftover:  "its session ends now, and the lock with it",
}

func (d *database) words() *words { return &databaseWords }

// keyOf reads SPACE/NAME.
func keyOf(name string) (key lock.Key) {
	key.Space, key.Name, _ = strings.Cut(name, "/")
	return key
}

// notKey says why a lock in a database can't be called so; "" if it can.
func notKey(name string) (wrong string) {
	if key := keyOf(name); key.Space != "" && key.Name != "" {
		return ""
	}
	return visible(strconv.Quote(name)) + " is no name of a lock in a database; with -pg, LOCK is SPACE/NAME, such as deploy/production"
}

// asked is an engine whose locks are acquired in another way.
type asked struct {
	lock.Locker
	acquire func(context.Context, lock.Key) (lock.Hold, error)
}

func (l asked) Acquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key)
}

func (d *database) acquire(ctx context.Context, names []string, shared, try bool) ([]hold, error) {
	acquire := d.Acquire
	switch {
	case shared && try:
		acquire = d.TryAcquireShared
	case shared:
		acquire = d.AcquireShared
	case try:
		acquire = d.TryAcquire
	}
	return acquireWhole(ctx, d, names, try, func() ([]hold, error) { return d.take(ctx, names, acquire) })
}

func (d *database) take(ctx context.Context, names []string, acquire func(context.Context, lock.Key) (lock.Hold, error)) (held []hold, err error) {
	l := asked{d, func(ctx context.Context, key lock.Key) (lock.Hold, error) {
		h, err := acquire(ctx, key)
		if err == nil {
			d.mu.Lock()
			d.ours[h.Info().PID] = true
			d.mu.Unlock()
			held = append(held, sessionHold{h, key})
		}
		return h, err
	}}
	var keys []lock.Key
	for _, name := range names {
		keys = append(keys, keyOf(name))
	}
	if _, err := lock.AcquireKeys(ctx, l, keys...); err != nil {
		return nil, err
	}
	return held, nil
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

// answerPatience bounds the answer to a question.
const answerPatience = 10 * time.Second

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
func (d *database) look(ctx context.Context, name string) (lock.Status, []Session, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	key := keyOf(name)
	sessions, err := d.Holders(ctx, key)
	if err != nil {
		return lock.Status{}, nil, err
	}
	status, err := d.Inspect(ctx, key)
	if err != nil {
		return status, nil, err
	}
	status = told(status)
	for _, s := range sessions {
		if status.Info != nil && status.Info.PID == s.PID {
			status.Info.Nonce = s.nonce()
		}
	}
	return status, sessions, nil
}

// end ends a session if it still has a lock: it may have released that since the look. It
// reports whether that was so.
func (d *database) end(ctx context.Context, name string, s Session) (had bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	sessions, err := d.Holders(ctx, keyOf(name))
	if err != nil || !slices.ContainsFunc(sessions, func(now Session) bool { return now.nonce() == s.nonce() }) {
		return false, err
	}
	return d.EndSession(ctx, s)
}

// nonce tells a session from another that has its pid later; "" if that can't be seen.
func (s Session) nonce() string {
	if s.Started.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d-%d", s.PID, s.Started.UnixMicro())
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
		for s, err := range d.Database.List(ctx) {
			if !yield(told(s), err) {
				return
			}
		}
	}
}

// databaseAdvice says what a person can do about a lock in a database.
func databaseAdvice(s lock.Status) []string {
	switch {
	case s.State == evidence.Free:
		return nil
	case s.Evidence == evidence.Prepared:
		return []string{"it ends with COMMIT PREPARED or ROLLBACK PREPARED; which one that is:", "  SELECT * FROM pg_prepared_xacts"}
	}
	advice := []string{"wait for it, or end that session, with all that it holds:"}
	if len(s.Processes) > 1 {
		advice[0] = "wait for them, or end those sessions, with all that they hold:"
	}
	if name, ok := shellWord(s.Path); ok && s.Path != "" {
		advice = append(advice, "  holdfast break -pg ... "+name)
	}
	pid := 0
	switch {
	case s.Info != nil:
		pid = s.Info.PID
	case len(s.Processes) == 1:
		pid = s.Processes[0].PID
	default:
		return advice
	}
	if s.Path == "" {
		advice = append(advice, fmt.Sprintf("  SELECT pg_terminate_backend(%d)", pid))
	}
	return append(advice, fmt.Sprintf("who that is: SELECT * FROM pg_stat_activity WHERE pid = %d", pid))
}
