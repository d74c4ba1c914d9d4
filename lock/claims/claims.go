package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/ledger"
	"github.com/holdfast-go/holdfast/platform"
)

// How long a claim may last.
const (
	DefaultLifetime = 5 * time.Minute
	MinLifetime     = time.Second
	MaxLifetime     = time.Hour
)

// Manager manages the claims of one proof. It works once Dir is set, and must not be
// copied. Its methods may be called by several goroutines at once. Any number of Managers,
// in any number of processes, may be at work on one proof. It begins with a snapshot, and
// remembers what it has read of the ledger, so that calls only read what is new.
type Manager struct {
	// Dir is the folder that has the ledger, locks, and meta.json. Claim makes it, if the
	// folder that it is in is there.
	Dir string

	// Ledger has settings for the ledger; its Dir is not used.
	Ledger ledger.Ledger

	// Skew is how much the clocks of claimants may differ: a claim counts for so long beyond
	// its expiry.
	Skew time.Duration

	// Now is the clock; nil means time.Now.
	Now func() time.Time

	mu    sync.Mutex // guards state; where both are taken, after the ledger's lock
	state *state     // what was read so far
}

// Claim claims a node for an owner, until ExpiresAt. If the node is claimed, by this owner
// or another, the error is a *ClaimedError. A claim that has expired is reaped first.
//
// An error that matches ErrFiles, here and below, comes with a change that stands. With any
// other one nothing was changed, except where it matches ledger.ErrUnfinished or
// lock.ErrLost: then look again.
func (m *Manager) Claim(ctx context.Context, node, owner string) (Claim, error) {
	return m.acquire(ctx, node, owner, view.claim)
}

// Refresh makes a claim last for another lock_timeout from now; AcquiredAt stays. If the
// owner does not have the claim, or it has expired, the error is a *NotOwnedError.
func (m *Manager) Refresh(ctx context.Context, node, owner string) (Claim, error) {
	if err := m.there(); err != nil {
		return Claim{}, err
	}
	return m.acquire(ctx, node, owner, view.refresh)
}

// Release ends a claim, expired or not. If the owner does not have it, the error is a
// *NotOwnedError.
func (m *Manager) Release(ctx context.Context, node, owner string) error {
	if err := m.there(); err != nil {
		return err
	}
	_, err := m.change(ctx, 0, node, owner, view.release)
	return err
}

// Reap ends all claims that have expired, and returns them. When several reap at once, one
// of them ends each claim.
func (m *Manager) Reap(ctx context.Context) (ended []Claim, err error) {
	if err := m.there(); err != nil {
		return nil, err
	}
	err = m.decide(ctx, 0, "", func(v view, _ *files) ([]event, error) {
		var events []event
		events, ended = v.reap()
		return events, nil
	})
	if err != nil && !errors.Is(err, ErrFiles) {
		return nil, err
	}
	return ended, err
}

// ReapEvery reaps at once and then every interval, and tells report what came of it. It
// goes on until ctx is done, and returns the error of ctx. An interval that is not above 0
// is lock.ErrInvalidName.
func (m *Manager) ReapEvery(ctx context.Context, interval time.Duration, report func([]Claim, error)) error {
	if interval <= 0 {
		return fmt.Errorf("claims: %w: interval %v", lock.ErrInvalidName, interval)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		ended, err := m.Reap(ctx)
		if ctx.Err() != nil && err != nil {
			break
		}
		report(ended, err)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// Active returns the claims that have not expired, in the order of their nodes. It
// takes no lock. Files that are not a claim are passed over.
func (m *Manager) Active() ([]Claim, error) {
	active, _, err := m.active()
	return active, err
}

// active also returns, by node, the errors of files that may hide a claim.
func (m *Manager) active() (active []Claim, broken map[string]error, err error) {
	if err := m.check(); err != nil {
		return nil, nil, err
	}
	found, err := readFiles(m.Dir)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.read(); err != nil {
		return nil, nil, err
	}
	now := m.now()
	lasts := func(c Claim) bool { return c.active(now, m.Skew) }
	claims := maps.Clone(m.state.claims)
	maps.Copy(claims, found.foreign(m.state, lasts))
	maps.DeleteFunc(found.broken, func(node string, _ error) bool { _, ok := claims[node]; return ok })
	maps.DeleteFunc(claims, func(_ string, c Claim) bool { return !lasts(c) })
	return sorted(claims), found.broken, nil
}

// IsClaimed returns the claim on a node, if there is one that has not expired. It takes no
// lock. A file that is not a claim is an error, unless the ledger has a claim on the node.
func (m *Manager) IsClaimed(node string) (Claim, bool, error) {
	if err := checkNode(node); err != nil {
		return Claim{}, false, err
	}
	active, broken, err := m.active()
	if err != nil {
		return Claim{}, false, err
	}
	for _, c := range active {
		if c.NodeID == node {
			return c, true, nil
		}
	}
	return Claim{}, false, broken[node]
}

// decider is a method of view for one node.
type decider func(v view, node, owner string) ([]event, error)

func (m *Manager) acquire(ctx context.Context, node, owner string, decide decider) (Claim, error) {
	lasts, err := m.lifetime()
	if err != nil {
		return Claim{}, err
	}
	events, err := m.change(ctx, lasts, node, owner, decide)
	if err != nil && !errors.Is(err, ErrFiles) {
		return Claim{}, err
	}
	e := events[len(events)-1]
	return e.claim(), err
}

// change decides on one node, and returns what it has appended.
func (m *Manager) change(ctx context.Context, lasts time.Duration, node, owner string, decide decider) (events []event, err error) {
	if err := errors.Join(checkNode(node), checkOwner(owner)); err != nil {
		return nil, err
	}
	err = m.decide(ctx, lasts, node, func(v view, f *files) ([]event, error) {
		if _, ok := v.claims[node]; !ok && f.broken[node] != nil {
			return nil, f.broken[node] // it may say that somebody has it
		}
		events, err = decide(v, node, owner)
		return events, err
	})
	return events, err
}

// decide is the one way to change claims. Under the ledger's lock it reads what has
// happened, lets the caller decide, appends the events, and makes the files follow. That
// also finishes what a dead writer had begun. If a node is given, files of other nodes are no
// reason to fail.
func (m *Manager) decide(ctx context.Context, lasts time.Duration, node string, decision func(view, *files) ([]event, error)) error {
	if err := m.check(); err != nil {
		return err
	}
	return m.ledger().Locked(ctx, func(ctx context.Context, w *ledger.Writer) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := m.read(); err != nil {
			return err
		}
		m.state.leaveSnapshot(m.ledger())
		found, err := readFiles(m.Dir)
		if err != nil {
			return err
		}
		v := view{claims: m.state.claims, told: m.state.recent, now: m.now(), skew: m.Skew, lasts: lasts}
		counts := func(c Claim) bool { return c.active(v.now, v.skew) }
		v.foreign = found.foreign(m.state, counts)
		events, err := decision(v, found)
		if err != nil {
			_ = found.follow(m.state, node, counts) // what a dead writer has left; the refusal matters more
			return err
		}
		var lines [][]byte
		for _, e := range events {
			line, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("claims: %w", err)
			}
			lines = append(lines, line)
		}
		// Nobody else may have appended since, not even a program that asks for no lock.
		if _, err := w.AppendIfSequence(m.state.sequence, lines...); err != nil {
			m.state = nil // the ledger may be another one by now: begin anew
			return err
		}
		if err := m.read(); err != nil {
			return fmt.Errorf("claims: %w: %w", ErrFiles, err)
		}
		return found.follow(m.state, node, counts)
	})
}

// read replays what is new. The first time, and after damage (it may be repaired in any way),
// it replays what is behind the snapshot. The caller has m.mu.
func (m *Manager) read() error {
	if m.state == nil {
		m.state = fromSnapshot(m.ledger())
	}
	err := m.state.catchUp(m.ledger())
	if err != nil {
		m.state = nil
	}
	return err
}

func (m *Manager) ledger() ledger.Ledger {
	l := m.Ledger
	l.Dir = m.Dir
	return l
}

func (m *Manager) check() error {
	if m.Dir == "" {
		return fmt.Errorf("claims: %w: the folder of the proof is not named", lock.ErrInvalidName)
	}
	if m.Skew < 0 {
		return fmt.Errorf("claims: %w: negative tolerance for clocks, %v", lock.ErrInvalidName, m.Skew)
	}
	return nil
}

// there refuses a missing folder, for methods that would find nothing in a new one.
func (m *Manager) there() error {
	if err := m.check(); err != nil {
		return err
	}
	if _, err := os.Stat(m.Dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("claims: there are no claims in %s, nor that folder: %w", m.Dir, fs.ErrNotExist)
	}
	return nil
}

func (m *Manager) now() time.Time {
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	return now().UTC().Round(0)
}

// lifetime reads from meta.json how long a claim lasts.
func (m *Manager) lifetime() (time.Duration, error) {
	path := filepath.Join(m.Dir, "meta.json")
	data, err := platform.ReadRegular(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return DefaultLifetime, nil
	} else if err != nil {
		return 0, fmt.Errorf("claims: %w", err)
	}
	var meta struct {
		Timeout *string `json:"lock_timeout"`
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return 0, fmt.Errorf("claims: %s: %w: %w", path, ErrLifetime, err)
	}
	if meta.Timeout == nil {
		return DefaultLifetime, nil
	}
	d, err := time.ParseDuration(*meta.Timeout)
	if err != nil || d < MinLifetime || d > MaxLifetime {
		return 0, fmt.Errorf("claims: %s: lock_timeout %q: %w", path, *meta.Timeout, ErrLifetime)
	}
	return d, nil
}
