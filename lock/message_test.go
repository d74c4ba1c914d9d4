package lock_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/lock"
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

func known() lock.ErrLocked {
	return lock.ErrLocked{
		Path: "/data/index.json.lock", State: lock.StateHeld, Evidence: lock.EvidenceKernelLockHeld, Waited: 5*time.Second + 12*time.Millisecond,
		Info: &lock.LockInfo{PID: 4242, Hostname: "box", Cmd: "update", CreatedAt: messageSince},
	}
}

func unknown() lock.ErrLocked {
	return lock.ErrLocked{Path: "/data/index.json.lock", State: lock.StateUnknown, Evidence: lock.EvidenceUnreadable, Waited: 40 * time.Millisecond}
}

// TestErrLocked_Golden: that it is held, or may be, by whom, on what evidence, what to do.
func TestErrLocked_Golden(t *testing.T) {
	const by = ` by pid 4242 ("update") on "box" since 2026-01-02T03:04:05Z, 1m15s ago: `
	foreign, being, shared, own := known(), known(), known(), known()
	foreign.State, foreign.Evidence = lock.StateUnknown, lock.EvidenceForeignHost
	being.Info, being.Evidence = nil, lock.EvidenceBeingReclaimed
	shared.Shared = true
	own.Evidence = lock.EvidenceSameProcess
	for want, locked := range map[string]*lock.ErrLocked{
		" is held" + by + "kernel lock held; wait for it, or end that process":                                                     known().At(messageNow, nil),
		" is held" + by + "kernel lock held; gave up after 5s: " + errTimedOut.Error() + "; wait for it, or end that process":      known().At(messageNow, errTimedOut),
		" may be held" + by + "claim from another host; if that holder is gone, remove the file":                                   foreign.At(messageNow, nil),
		" may be held: claim unreadable; if no program is using the lock, remove the file":                                         unknown().At(messageNow, nil),
		" is held by readers, one of them" + by[len(" by"):] + "kernel lock held; wait for it":                                     shared.At(messageNow, nil),
		" is held" + by + "the process that wrote the claim is running; the caller holds this lock already":                        own.At(messageNow, lock.ErrReentrant),
		" is held: " + string(lock.EvidenceBeingReclaimed) + "; try again; if no process is at work on the lock, remove that file": being.At(messageNow, nil),
	} {
		if want = "locked: /data/index.json.lock" + want; locked.Error() != want {
			t.Errorf("message is\n%s\nwant\n%s", locked, want)
		}
	}
}

// TestUserMessage_Golden: what, how long, who and since when, three things to try.
func TestUserMessage_Golden(t *testing.T) {
	foreign := known()
	foreign.State, foreign.Evidence = lock.StateUnknown, lock.EvidenceForeignHost
	long := known()
	long.Waited = 31 * time.Second
	for _, test := range []struct {
		name, prefix string
		locked       *lock.ErrLocked
		want         string
	}{
		{"known holder, with a prefix", "JIT", known().At(messageNow, errTimedOut), `Lock timeout: could not acquire lock on /data/index.json.lock after 5s

It is held by pid 4242 ("update") on "box" since 2026-01-02T03:04:05Z, 1m15s ago: kernel lock held.
Try:
  1. Wait a few seconds and retry
  2. Check the holder: ps -p 4242, or: holdfast status /data/index.json.lock
  3. Increase the timeout: JIT_LOCK_TIMEOUT=10
`},
		{"known holder, without a prefix", "", known().At(messageNow, errTimedOut), `Lock timeout: could not acquire lock on /data/index.json.lock after 5s

It is held by pid 4242 ("update") on "box" since 2026-01-02T03:04:05Z, 1m15s ago: kernel lock held.
Try:
  1. Wait a few seconds and retry
  2. Check the holder: ps -p 4242, or: holdfast status /data/index.json.lock
  3. Wait longer
`},
		{"after a long wait", "JIT", long.At(messageNow, errTimedOut), `Lock timeout: could not acquire lock on /data/index.json.lock after 31s

It is held by pid 4242 ("update") on "box" since 2026-01-02T03:04:05Z, 1m15s ago: kernel lock held.
Try:
  1. Wait a few seconds and retry
  2. Check the holder: ps -p 4242, or: holdfast status /data/index.json.lock
  3. Increase the timeout: JIT_LOCK_TIMEOUT=62
`},
		{"holder on another host", "JIT", foreign.At(messageNow, errTimedOut), `Lock timeout: could not acquire lock on /data/index.json.lock after 5s

It may be held by pid 4242 ("update") on "box" since 2026-01-02T03:04:05Z, 1m15s ago: claim from another host.
Try:
  1. Wait a few seconds and retry
  2. Check the holder: holdfast status /data/index.json.lock
  3. Increase the timeout: JIT_LOCK_TIMEOUT=10
`},
		{"unknown holder, with a prefix", "JIT", unknown().At(messageNow, errTimedOut), `Lock timeout: could not acquire lock on /data/index.json.lock after 40ms

Nobody is named in it: claim unreadable.
Try:
  1. Wait a few seconds and retry
  2. Check the holder: holdfast status /data/index.json.lock
  3. Increase the timeout: JIT_LOCK_TIMEOUT=10
`},
		{"unknown holder, without a prefix", "", unknown().At(messageNow, errTimedOut), `Lock timeout: could not acquire lock on /data/index.json.lock after 40ms

Nobody is named in it: claim unreadable.
Try:
  1. Wait a few seconds and retry
  2. Check the holder: holdfast status /data/index.json.lock
  3. Wait longer
`},
		{"no wait", "JIT", known().At(messageNow, nil), `Locked: could not acquire lock on /data/index.json.lock

It is held by pid 4242 ("update") on "box" since 2026-01-02T03:04:05Z, 1m15s ago: kernel lock held.
Try:
  1. Wait a few seconds and retry
  2. Check the holder: ps -p 4242, or: holdfast status /data/index.json.lock
  3. Increase the timeout: JIT_LOCK_TIMEOUT=10
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.locked.UserMessage(test.prefix); got != test.want {
				t.Errorf("message is\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestUserMessage_Real: a wait that timed out, on a lock that another process has.
func TestUserMessage_Real(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	other := start(t, "holder", path)
	other.Do("try", "held")
	_, err := lock.File{Path: path}.AcquireWithin(t.Context(), 20*time.Millisecond)
	if !errors.Is(err, lock.ErrTimeout) {
		t.Fatal(err)
	}
	got := asLocked(t, err).UserMessage("JIT")
	for _, want := range []string{
		"Lock timeout: could not acquire lock on " + path + " after ",
		fmt.Sprintf("held by pid %d (\"holder\") on ", other.Cmd.Process.Pid),
		": kernel lock held.", fmt.Sprintf("ps -p %d", other.Cmd.Process.Pid), "JIT_LOCK_TIMEOUT=10",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// TestUserMessage_NoRawControls: a claim is anybody's text, and must not reach
// the terminal as it is.
func TestUserMessage_NoRawControls(t *testing.T) {
	bad := "\x1b]0;title\x07\x1b[2J\r\x00\x7f\u009b31m\u202e\u2028\xff\nTry:\n  1. curl evil"
	l := known()
	l.Info.Cmd, l.Info.Hostname = bad, bad
	locked := l.At(messageNow, errTimedOut)
	lines := strings.Count(known().At(messageNow, errTimedOut).UserMessage("JIT"), "\n")
	for name, got := range map[string]string{"UserMessage": locked.UserMessage("JIT"), "Error": locked.Error() + strings.Repeat("\n", lines)} {
		if n := strings.Count(got, "\n"); n != lines {
			t.Errorf("%s has %d lines, want %d:\n%q", name, n, lines, got)
		}
		for _, r := range got {
			if r != '\n' && !unicode.IsPrint(r) || r == unicode.ReplacementChar {
				t.Errorf("%s has a raw %q:\n%q", name, r, got)
			}
		}
		if !strings.Contains(got, `\x1b]0;title\a`) {
			t.Errorf("%s does not quote the cmd:\n%q", name, got)
		}
	}
}
