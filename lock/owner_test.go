package lock_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestOwner: the claim says for whose life the lock is held.
func TestOwner(t *testing.T) { // guards: S3
	for name, f := range map[string]lock.File{
		"":         {Path: filepath.Join(t.TempDir(), ".lock"), Cmd: "push", OwnerPID: 4242},
		"fallback": lock.File{Path: filepath.Join(t.TempDir(), ".lock"), OwnerPID: 4242, StaleAfter: 3 * time.Second}.WithoutKernelLock(),
	} {
		t.Run(name, func(t *testing.T) {
			held := tryHold(t, f)
			status := inspect(t, f)
			if status.Info == nil || status.Info.OwnerPID != 4242 || held.Info() != *status.Info {
				t.Errorf("others see %+v, and it is %+v", status.Info, held.Info())
			}
			contains(t, tryErr(t, f).Error(), "session of pid 4242, since")
			letGo(t, held)
			isAbsent(t, f.Path)
		})
	}
	path := filepath.Join(t.TempDir(), ".lock")
	for _, pid := range []int{-1, math.MinInt32} {
		wantErr(t, tryErr(t, lock.File{Path: path, OwnerPID: pid}), lock.ErrInvalidName, pid)
		isAbsent(t, path)
	}
}

// TestReleaseAsDied: the lock is free, and the next holder learns that work was cut short, and
// why, though the one that says so lives.
func TestReleaseAsDied(t *testing.T) { // guards: S3
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), OwnerPID: 4242}
	for _, test := range []struct {
		why, want evidence.Evidence
		cmd       string
	}{
		{evidence.OwnerEnded, evidence.OwnerEnded, ""},
		{evidence.ToldToEnd, evidence.ToldToEnd, strings.Repeat("c", 8<<10)}, // beside the longest claim, too
		{evidence.Evidence(strings.Repeat("long ", 400)), "", ""},
		{"", "", ""},
	} {
		f.Cmd = test.cmd
		held := tryHold(t, f)
		nonce := held.Info().Nonce
		check(t, held.Note("step 3"))
		check(t, held.ReleaseAsDied(test.why))
		check(t, held.ReleaseAsDied("again")) // it is released, once
		isAbsent(t, f.Path)
		status := inspect(t, f)
		for range 2 { // for whoever looks, and for the next one
			p := status.Last
			if status.State != evidence.Free || p == nil || p.How != lock.EndDied || p.Evidence != test.want ||
				p.Info.Nonce != nonce || p.Note != "step 3" || time.Since(p.Ended) > time.Minute {
				t.Fatalf("%+v of %+v; want that it died by %q", p, status, test.want)
			}
			next := tryHold(t, f)
			status.Last = must(next.Predecessor())(t)
			check(t, next.ReleaseUnused())
		}
		check(t, tryHold(t, f).Release()) // and that is over
		if status, err := f.Inspect(t.Context()); err != nil || status.Last == nil || status.Last.How != lock.EndReleased {
			t.Errorf("%+v, %v", status.Last, err)
		}
	}
}
