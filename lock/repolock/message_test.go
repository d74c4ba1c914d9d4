package repolock_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/repolock"
)

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

// at returns e as it is when a wait has ended for a cause, and as it is read at a time: the one
// at which a RepoLock found a lock held.
func at(t *testing.T, e lock.LockedError, now time.Time, cause error) *lock.LockedError {
	t.Helper()
	l := repolock.NewRepoLock(t.TempDir())
	unlock := lockRepo(t, l, "")
	l.Now = func() time.Time { return now }
	_, err := l.Lock(repoID, "")
	locked := asLocked(t, err)
	check(t, unlock())
	locked.Status, locked.Waited, locked.Cause = e.Status, e.Waited, cause
	return locked
}

// TestUserMessage_Golden: what, how long, who and since when, three things to try.
func TestUserMessage_Golden(t *testing.T) {
	foreign := known()
	foreign.State, foreign.Evidence = evidence.Unknown, evidence.ForeignHost
	long := known()
	long.Waited = 31 * time.Second
	const (
		timeout    = "Lock timeout: could not acquire lock on /data/index.json.lock after "
		by         = ` held by pid 4242 ("update") on "box" since 2026-01-02T03:04:05Z, 1m15s ago: `
		held       = "It is" + by + "kernel lock held"
		elsewhere  = "It may be" + by + "claim from another host"
		unreadable = "Nobody is named in it: claim unreadable"
		ps         = "ps -p 4242, or: "
		longer     = "Increase the timeout: JIT_LOCK_TIMEOUT="
	)
	for _, test := range []struct {
		name, prefix         string
		locked               lock.LockedError
		cause                error
		what, who, ps, third string
	}{
		{"known holder, with a prefix", "JIT", known(), errTimedOut, timeout + "5s", held, ps, longer + "10"},
		{"known holder, without a prefix", "", known(), errTimedOut, timeout + "5s", held, ps, "Wait longer"},
		{"after a long wait", "JIT", long, errTimedOut, timeout + "31s", held, ps, longer + "62"},
		{"holder on another host", "JIT", foreign, errTimedOut, timeout + "5s", elsewhere, "", longer + "10"},
		{"unknown holder, with a prefix", "JIT", unknown(), errTimedOut, timeout + "40ms", unreadable, "", longer + "10"},
		{"unknown holder, without a prefix", "", unknown(), errTimedOut, timeout + "40ms", unreadable, "", "Wait longer"},
		{"no wait", "JIT", known(), nil, "Locked: could not acquire lock on /data/index.json.lock", held, ps, longer + "10"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := fmt.Sprintf(`%s

%s.
Try:
  1. Wait a few seconds and retry
  2. Check the holder: %sholdfast status /data/index.json.lock
  3. %s
`, test.what, test.who, test.ps, test.third)
			equal(t, repolock.UserMessage(at(t, test.locked, messageNow, test.cause), test.prefix), want)
		})
	}
}

// TestUserMessage_Real: a wait that timed out, on a lock that another process has.
func TestUserMessage_Real(t *testing.T) { // guards: W10
	path := filepath.Join(t.TempDir(), "l")
	other := testkit.Start(t, "holder", path)
	other.Expect("held")
	_, err := lock.File{Path: path}.AcquireWithin(t.Context(), 20*time.Millisecond)
	if !errors.Is(err, lock.ErrTimeout) {
		t.Fatal(err)
	}
	got := repolock.UserMessage(asLocked(t, err), "JIT")
	for _, want := range []string{
		"Lock timeout: could not acquire lock on " + path + " after ",
		fmt.Sprintf("held by pid %d (\"holder\") on ", other.Cmd.Process.Pid),
		": kernel lock held.", fmt.Sprintf("ps -p %d", other.Cmd.Process.Pid), "JIT_LOCK_TIMEOUT=10",
	} {
		that(t, strings.Contains(got, want), "%q is missing in\n%s", want, got)
	}
}

// TestUserMessage_NoRawControls: a claim is anybody's text, and must not reach
// the terminal as it is.
func TestUserMessage_NoRawControls(t *testing.T) { // guards: H6
	bad := "\x1b]0;title\x07\x1b[2J\r\x00\x7f\u009b31m\u202e\u2028\xff\nTry:\n  1. curl evil"
	l := known()
	l.Info.Cmd, l.Info.Hostname = bad, bad
	locked := at(t, l, messageNow, errTimedOut)
	lines := strings.Count(repolock.UserMessage(at(t, known(), messageNow, errTimedOut), "JIT"), "\n")
	for name, got := range map[string]string{"UserMessage": repolock.UserMessage(locked, "JIT"), "Error": locked.Error() + strings.Repeat("\n", lines)} {
		if n := strings.Count(got, "\n"); n != lines {
			t.Errorf("%s has %d lines, want %d:\n%q", name, n, lines, got)
		}
		for _, r := range got {
			that(t, (r == '\n' || unicode.IsPrint(r)) && r != unicode.ReplacementChar, "%s has a raw %q:\n%q", name, r, got)
		}
		that(t, strings.Contains(got, `\x1b]0;title\a`), "%s does not quote the cmd:\n%q", name, got)
	}
}
