package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// TestLocked_LockFile: it has mode 0600, and says who is appending both as other
// programs do and as package lock does.
func TestLocked_LockFile(t *testing.T) {
	for _, agent := range []string{"prover-1", "", `a "b" \`, "ümlaut"} {
		l := fresh(t)
		l.AgentID = agent
		began := time.Now()
		err := l.Locked(background, func(context.Context, *ledger.Writer) error {
			info, err := os.Lstat(at(l, "ledger.lock"))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			data, err := os.ReadFile(at(l, "ledger.lock"))
			if err != nil {
				return err
			}
			var claim struct {
				evidence.Claim
				AgentID    string `json:"agent_id"`
				AcquiredAt string `json:"acquired_at"`
			}
			if err := json.Unmarshal(data, &claim); err != nil {
				return err
			}
			when, err := time.Parse(time.RFC3339Nano, claim.AcquiredAt)
			if err != nil || !when.Equal(claim.CreatedAt) || when.Before(began) || !strings.HasSuffix(claim.AcquiredAt, "Z") {
				t.Errorf("acquired_at %s, %v; created_at %v", claim.AcquiredAt, err, claim.CreatedAt)
			}
			if claim.PID != os.Getpid() || claim.Nonce == "" || agent != "" && claim.AgentID != agent || claim.AgentID == "" {
				t.Errorf("%s", data)
			}
			return nil
		})
		noErr(t, err)
		wantErr(t, errOf(os.Lstat(at(l, "ledger.lock"))), fs.ErrNotExist, "the lock file afterwards")
	}
}

// theirClaim is what another program has in its lock file.
const theirClaim = `{"agent_id":"af-7","acquired_at":"2024-01-15T10:30:00Z"}` + "\n"

// theirLocks are locks of other programs, and how each is taken and released.
var theirLocks = map[string]struct {
	take  func(path string) error
	names []string // what the error names
}{
	"file": {func(path string) error {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(theirClaim)
		return errors.Join(err, f.Close())
	}, []string{`"af-7"`, "2024-01-15T10:30:00Z", "ledger.lock"}},
	"just created": {func(path string) error { return os.WriteFile(path, nil, 0o600) }, []string{"ledger.lock"}},
	"folder":       {func(path string) error { return os.Mkdir(path, 0o700) }, []string{"ledger.lock"}},
}

// TestAppend_OthersLock: a lock of another program, however old, is respected, and
// not touched; and waited for.
func TestAppend_OthersLock(t *testing.T) {
	for name, theirs := range theirLocks {
		t.Run(name, func(t *testing.T) {
			l := filled(t, 1)
			path := at(l, "ledger.lock")
			check(t, theirs.take(path))
			before, err := os.Lstat(path)
			check(t, err)
			l.Timeout = time.Millisecond
			_, err = l.Append(background, []byte("2"))
			complains(t, err, lock.ErrTimeout, theirs.names...)
			var locked *lock.LockedError
			that(t, errors.As(err, &locked) && locked.Path == path, "%+v", locked)
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || after.Size() != before.Size() || after.ModTime() != before.ModTime() {
				t.Errorf("their lock was touched: %v, %v", after, err)
			}

			l.Timeout = -1
			waiting := make(chan struct{})
			l.Observe = func(e lock.Event) {
				if e.Kind == lock.EventWaiting && e.Duration == 0 {
					close(waiting)
				}
			}
			done := make(chan error)
			go func() {
				_, err := l.Append(background, []byte("2"))
				done <- err
			}()
			<-waiting
			remove(t, l, "ledger.lock")
			noErr(t, <-done)
			holds(t, l, "1", "2")
		})
	}
}

// TestAppend_Cancelled: a wait ends with its context, and nothing was appended.
func TestAppend_Cancelled(t *testing.T) {
	l := filled(t, 1)
	c, _ := start(t, "holder", l.Dir)
	ctx, cancel := context.WithCancelCause(background)
	cause := errors.New("enough")
	l.Observe = func(e lock.Event) {
		if e.Kind == lock.EventWaiting && e.Duration == 0 {
			cancel(cause)
		}
	}
	_, err := l.Append(ctx, []byte("2"))
	complains(t, err, context.Canceled, `"holder"`)
	complains(t, err, cause)
	_, err = l.Append(ctx, []byte("2"))
	complains(t, err, context.Canceled)
	c.Kill()
	holds(t, l, "1", `"held"`)
}

// TestAppend_DeadHolder: a writer that was killed while it had the lock keeps nobody
// waiting.
func TestAppend_DeadHolder(t *testing.T) {
	l := fresh(t)
	c, _ := start(t, "holder", l.Dir)
	l.Timeout = time.Millisecond
	_, err := l.Append(background, []byte("2"))
	complains(t, err, lock.ErrTimeout, `"holder"`)
	c.Kill()
	l.Timeout = 0
	var seen []lock.EventKind
	l.Observe = func(e lock.Event) { seen = append(seen, e.Kind) }
	appends(t, l, "2", 2)
	that(t, slices.Contains(seen, lock.EventReclaimed), "observed %v, and not that it was reclaimed", seen)
	holds(t, l, `"held"`, "2")
}
