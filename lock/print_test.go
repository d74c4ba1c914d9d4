package lock_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// logged is what a logger of text makes of a value.
func logged(v any) string {
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}})).Info("", "x", v)
	return strings.TrimSpace(out.String())
}

// TestPrinted pins the line for people, and the groups for logs.
func TestPrinted(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ana := &evidence.Claim{PID: 42, CreatedAt: at, Cmd: "push", Hostname: "builder", User: "ana"}
	last := &lock.Predecessor{Info: *ana, How: lock.EndReleased, Ended: at.Add(time.Minute)}
	bob := &evidence.Claim{PID: 43, CreatedAt: at}
	const holder = "holder.pid=42 x.holder.host=builder x.holder.cmd=push x.holder.since=2026-01-02T03:04:05.000Z x.holder.user=ana"
	for _, test := range []struct {
		of        fmt.Stringer
		line, log string
	}{
		{lock.Status{Path: "/l", State: evidence.Held, Evidence: evidence.KernelLockHeld, Info: ana, Note: "step 2", Fence: 7, Waiters: make([]lock.Process, 2)},
			`/l is held by pid 42 ("push") on "builder" as "ana" since 2026-01-02T03:04:05Z, at "step 2": kernel lock held; 2 waiting`,
			`x.path=/l x.state=held x.evidence="kernel lock held" x.` + holder + ` x.note="step 2" x.fence=7 x.waiting=2`},
		{lock.Status{Path: "/l", State: evidence.Free, Evidence: evidence.NoLockFile},
			`/l is free: no lock file`,
			`x.path=/l x.state=free x.evidence="no lock file"`},
		{lock.Status{Path: "/l", State: evidence.Free, Evidence: evidence.NoLockFile, Last: last},
			`/l is free: no lock file; last: pid 42 ("push") on "builder" as "ana" since 2026-01-02T03:04:05Z: released 2026-01-02T03:05:05Z`,
			`x.path=/l x.state=free x.evidence="no lock file" x.last.` + strings.ReplaceAll(holder, "x.", "x.last.") + ` x.last.how=released x.last.ended=2026-01-02T03:05:05.000Z`},
		{lock.Status{Path: "/l", State: evidence.Dead, Evidence: evidence.KernelLockFree, Info: bob},
			`/l was held by pid 43 since 2026-01-02T03:04:05Z: kernel lock free`,
			`x.path=/l x.state=dead x.evidence="kernel lock free" x.holder.pid=43 x.holder.host="" x.holder.cmd="" x.holder.since=2026-01-02T03:04:05.000Z`},
		{lock.Status{Path: "/l", State: evidence.Unknown, Evidence: evidence.NotALockFile},
			`/l may be held: not a lock file`,
			`x.path=/l x.state=unknown x.evidence="not a lock file"`},
		{lock.Status{Path: "/l", State: evidence.Held, Evidence: evidence.KernelLockHeld, Shared: true, Processes: []lock.Process{{PID: 7}, {PID: 8, Cmd: "sh"}}},
			`/l is held by 2 readers, by the kernel's list: pid 7, pid 8 ("sh"): kernel lock held`,
			`x.path=/l x.state=held x.evidence="kernel lock held" x.pids="[7 8]" x.shared=true`},
		{lock.Status{Key: lock.Key{Space: "s", Name: "n"}, Path: "s/n", State: evidence.Held, Evidence: "a session has it", Shared: true, Processes: []lock.Process{{PID: 7}, {PID: 8}}},
			`s/n is held by 2 readers: pid 7, pid 8: a session has it`,
			`x.path=s/n x.state=held x.evidence="a session has it" x.pids="[7 8]" x.shared=true`},
		{lock.Status{Path: "/l", State: evidence.Held, Evidence: evidence.KernelLockHeld, Gone: bob, Processes: []lock.Process{{PID: 9, Cmd: "make"}}},
			`/l is held: holder (pid 43) has gone; its process 9 ("make") still has the lock: kernel lock held`,
			`x.path=/l x.state=held x.evidence="kernel lock held" x.gone.pid=43 x.gone.host="" x.gone.cmd="" x.gone.since=2026-01-02T03:04:05.000Z x.pids=[9]`},
		{lock.Predecessor{Info: *bob, How: lock.EndDied, Evidence: evidence.ProcessGone, Note: "half"},
			`pid 43 since 2026-01-02T03:04:05Z: died (process gone), at "half"`,
			`x.holder.pid=43 x.holder.host="" x.holder.cmd="" x.holder.since=2026-01-02T03:04:05.000Z x.how=died x.evidence="process gone" x.note=half`},
		{&lock.Predecessor{Info: evidence.Claim{PID: 5, Nonce: "N"}, How: lock.EndUnknown},
			`pid 5: unknown`,
			`x.holder.pid=5 x.holder.host="" x.holder.cmd="" x.holder.since=0001-01-01T00:00:00.000Z x.how=unknown`},
	} {
		if got := test.of.String(); got != test.line {
			t.Errorf("in a line\n%s, want\n%s", got, test.line)
		}
		if got := logged(test.of); got != test.log {
			t.Errorf("logged\n%s, want\n%s", got, test.log)
		}
	}
}

// TestPrinted_Hostile: whatever a lock file, or a path, has in it, a line is one line, and nothing
// in it is obeyed by a terminal.
func TestPrinted_Hostile(t *testing.T) {
	const nasty = "a\nb\x1b[2J\u009b\u202e\xff\x00\t"
	claim := evidence.Claim{PID: 1, CreatedAt: time.Unix(1e9, 0), Cmd: nasty, Hostname: nasty, User: nasty}
	before := lock.Predecessor{Info: claim, How: nasty, Evidence: nasty, Note: nasty}
	all := []fmt.Stringer{claim, before}
	for _, state := range []evidence.State{evidence.Held, evidence.Free, evidence.Dead, nasty} {
		s := lock.Status{Path: nasty, State: state, Evidence: nasty, Info: &claim, Note: nasty, Last: &before}
		all = append(all, s)
		s.Gone, s.Processes = &claim, []lock.Process{{PID: 2, Cmd: nasty}}
		all = append(all, s)
	}
	for _, of := range all {
		for _, r := range of.String() {
			if !unicode.IsPrint(r) {
				t.Fatalf("%U in %q", r, of.String())
			}
		}
	}
}

// TestPrinted_Error: an error that is logged is its message, though a Status is a group.
func TestPrinted_Error(t *testing.T) {
	err := &lock.LockedError{Status: lock.Status{Path: "/l", State: evidence.Held, Evidence: evidence.OthersWait}, Cause: lock.ErrTimeout}
	for _, err := range []error{err, errors.Join(err)} {
		equal(t, logged(err), fmt.Sprintf("x=%q", err.Error()), "logged")
	}
}
