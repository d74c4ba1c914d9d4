package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// withCancel is a context that ends with the test at the latest.
func withCancel(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

var (
	messageSince = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	messageNow   = messageSince.Add(75 * time.Second)
	errTimedOut  = fmt.Errorf("%w: %w", lock.ErrTimeout, context.DeadlineExceeded)
)

func known() lock.LockedError {
	return lock.LockedError{
		Status: lock.Status{Path: "/data/index.json.lock", State: evidence.Held, Evidence: evidence.KernelLockHeld, Info: &evidence.Claim{PID: 4242, Hostname: "box", Cmd: "update", CreatedAt: messageSince}},
		Waited: 5*time.Second + 12*time.Millisecond,
	}
}

func unknown() lock.LockedError {
	return lock.LockedError{Status: lock.Status{Path: "/data/index.json.lock", State: evidence.Unknown, Evidence: evidence.Unreadable}, Waited: 40 * time.Millisecond}
}

// TestLockedError_Golden: that it is held, or may be, by whom, on what evidence, what to do.
func TestLockedError_Golden(t *testing.T) {
	const by = ` by pid 4242 ("update") on "box" since 2026-01-02T03:04:05Z, 1m15s ago: `
	foreign, being, shared, own := known(), known(), known(), known()
	foreign.State, foreign.Evidence = evidence.Unknown, evidence.ForeignHost
	being.Info, being.Evidence = nil, evidence.BeingReclaimed
	shared.Shared = true
	own.Evidence = evidence.SameProcess
	for want, locked := range map[string]*lock.LockedError{
		" is held" + by + "kernel lock held; wait for it, or end that process":                                                 known().At(messageNow, nil),
		" is held" + by + "kernel lock held; gave up after 5s: " + errTimedOut.Error() + "; wait for it, or end that process":  known().At(messageNow, errTimedOut),
		" may be held" + by + "claim from another host; if that holder is gone, remove the file":                               foreign.At(messageNow, nil),
		" may be held: claim unreadable; if no program is using the lock, remove the file":                                     unknown().At(messageNow, nil),
		" is held by readers, one of them" + by[len(" by"):] + "kernel lock held; wait for it":                                 shared.At(messageNow, nil),
		" is held" + by + "the process that wrote the claim is running; the caller holds this lock already":                    own.At(messageNow, lock.ErrReentrant),
		" is held: " + string(evidence.BeingReclaimed) + "; try again; if no process is at work on the lock, remove that file": being.At(messageNow, nil),
	} {
		if want = "locked: /data/index.json.lock" + want; locked.Error() != want {
			t.Errorf("message is\n%s\nwant\n%s", locked, want)
		}
	}
}
