package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestRun_Whole: a caller that wants the lock itself waits for those who have permits of it, and
// keeps others from having one meanwhile.
func TestRun_Whole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	one, two := holdPermit(t, path, "one"), holdPermit(t, path, "two")
	wantCode(t, exitNotHad, "run", "--timeout", "10ms", path, "--", "true")
	whole := start(t, append([]string{"run", "--label", "whole", path, "--"}, role(t, "hold")...)...)
	whole.await("waiting for " + path + ", as permits of it are held")
	whole.await(": two, since ")
	waiter := start(t, "wait", path)
	two.finish()
	wantCode(t, exitNotHad, "run", "--permits", "2", "--try", path, "--", "true")
	stdout, _ := wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, ": whole", "permit 1 ")
	wantNoText(t, stdout, "permit 2 ")
	one.finish()
	whole.expect("ready")
	for _, p := range []*process{whole, waiter} {
		if code, _, stderr := p.finish(); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
	wantCode(t, exitOK, "status", path)
	holdPermit(t, path, "three", "--try")
}

// TestWait_Whole: what is waited for is that nobody has a permit, either.
func TestWait_Whole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	one := holdPermit(t, path, "one")
	waiter := start(t, "wait", path)
	waiter.await("waiting for " + path + ", as permits of it are held")
	one.cmd.Process.Kill()
	if code, _, stderr := waiter.finish(); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestRun_WholeOfSeveral: while permits of one lock are waited for, the others can be had: by the
// holder of a permit, for one.
func TestRun_WholeOfSeveral(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "slots.lock"), filepath.Join(dir, "other.lock")
	one := holdPermit(t, path, "one")
	both := start(t, append([]string{"run", "--also", path, other, "--"}, role(t, "hold")...)...)
	both.await("waiting for " + path + ", as permits of it are held")
	wantCode(t, exitOK, "run", "--try", other, "--", "true")
	one.finish()
	both.expect("ready")
	wantCode(t, exitNotHad, "run", "--try", other, "--", "true")
	both.finish()
}

// TestList_Whole: list, and break, do not call a lock free of which permits are held.
func TestList_Whole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	one := holdPermit(t, path, "one")
	stdout, _ := wantCode(t, exitOK, "list", filepath.Dir(path))
	wantText(t, stdout, "permits of it are held", "2 locks: 2 held, 0 free")
	stdout, _ = wantCode(t, exitOK, "break", path)
	wantText(t, stdout, "nothing to remove, but permits of it are held", "permit 1")
	one.finish()
}

// TestAcquireWhole_GivesUp: who stops waiting for permits leaves nothing of the lock behind.
func TestAcquireWhole_GivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	all, key := files{}.permitFiles(path)
	key.Name = "slots.permit-1"
	out, err := all.TryAcquire(t.Context(), key)
	testkit.Check(t, err)
	defer out.Release()
	ctx, cancel := context.WithCancel(t.Context())
	held, err := acquireWhole(ctx, files{}, []string{path}, false, func() ([]hold, error) {
		defer cancel()
		h, err := lock.File{Path: path}.TryAcquire(ctx)
		return []hold{h}, err
	})
	if held != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", held, err)
	}
	wantFile(t, path, false)
}

// TestPermitNumbers: whatever else is in the folder, and however much, the permits are found.
func TestPermitNumbers(t *testing.T) {
	for _, others := range []int{0, maxPermits - 3, maxPermits} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			dir := t.TempDir()
			for n := range others {
				write(t, filepath.Join(dir, fmt.Sprintf("other-%d", n)), "")
			}
			all, gate := files{}.permitFiles(filepath.Join(dir, "slots.lock"))
			var held []int
			for _, number := range []int{7, 1000} {
				key := gate
				key.Name = fmt.Sprintf("slots.permit-%d", number)
				h, err := all.TryAcquire(t.Context(), key)
				testkit.Check(t, err)
				defer h.Release()
			}
			out, err := files{}.permits(t.Context(), filepath.Join(dir, "slots.lock"))
			testkit.Check(t, err)
			for _, p := range out {
				held = append(held, p.Number)
			}
			if !slices.Equal(held, []int{7, 1000}) {
				t.Errorf("permits %v are out", held)
			}
		})
	}
}

// TestAsWhole: a lock that somebody has is as it is; of a free one permits tell.
func TestAsWhole(t *testing.T) {
	held, unknown := permit{Status: lock.Status{State: evidence.Held}}, permit{Status: lock.Status{State: evidence.Unknown}}
	for _, test := range []struct {
		of   evidence.State
		out  []permit
		want evidence.State
	}{
		{evidence.Free, nil, evidence.Free},
		{evidence.Dead, nil, evidence.Dead},
		{evidence.Free, []permit{held}, evidence.Held},
		{evidence.Dead, []permit{unknown, held}, evidence.Held},
		{evidence.Free, []permit{unknown}, evidence.Unknown},
		{evidence.Unknown, []permit{held}, evidence.Unknown},
		{evidence.Held, []permit{unknown}, evidence.Held},
	} {
		if got := asWhole(lock.Status{State: test.of}, test.out).State; got != test.want {
			t.Errorf("%s, with %d permits out: %s, want %s", test.of, len(test.out), got, test.want)
		}
	}
	waiters := []lock.Process{{PID: 7}}
	if got := asWhole(lock.Status{State: evidence.Free, Waiters: waiters}, []permit{held}).Waiters; len(got) != 1 || got[0].PID != 7 {
		t.Errorf("waiters %v, want %v", got, waiters)
	}
}
