package command

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// TestRun_Whole: a caller that wants the lock itself waits for those who have permits of it, and
// keeps others from having one meanwhile.
func TestRun_Whole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots.lock")
	one, two := holdPermit(t, path, "one"), holdPermit(t, path, "two")
	wantCode(t, exitNotHad, "run", "-timeout", "10ms", path, "--", "true")
	whole := start(t, append([]string{"run", "-label", "whole", path, "--"}, role(t, "hold")...)...)
	whole.await("waiting for " + path + ", as permits of it are held")
	whole.await(": two, since ")
	waiter := start(t, "wait", path)
	two.finish()
	wantCode(t, exitNotHad, "run", "-permits", "2", "-try", path, "--", "true")
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
	holdPermit(t, path, "three", "-try")
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
	both := start(t, append([]string{"run", "-also", path, other, "--"}, role(t, "hold")...)...)
	both.await("waiting for " + path + ", as permits of it are held")
	wantCode(t, exitOK, "run", "-try", other, "--", "true")
	one.finish()
	both.expect("ready")
	wantCode(t, exitNotHad, "run", "-try", other, "--", "true")
	both.finish()
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
	held, unknown := permit{Status: lock.Status{State: lock.StateHeld}}, permit{Status: lock.Status{State: lock.StateUnknown}}
	for _, test := range []struct {
		of   lock.State
		out  []permit
		want lock.State
	}{
		{lock.StateFree, nil, lock.StateFree},
		{lock.StateDead, nil, lock.StateDead},
		{lock.StateFree, []permit{held}, lock.StateHeld},
		{lock.StateDead, []permit{unknown, held}, lock.StateHeld},
		{lock.StateFree, []permit{unknown}, lock.StateUnknown},
		{lock.StateUnknown, []permit{held}, lock.StateUnknown},
		{lock.StateHeld, []permit{unknown}, lock.StateHeld},
	} {
		if got := asWhole(lock.Status{State: test.of}, test.out).State; got != test.want {
			t.Errorf("%s, with %d permits out: %s, want %s", test.of, len(test.out), got, test.want)
		}
	}
}
