//go:build !portable

package lock_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestInspect_MeetsALook: two looks at the lock of an exclusive holder who has died, or can't be
// seen from here, are not in each other's way: neither takes the other for the holder.
func TestInspect_MeetsALook(t *testing.T) {
	for name, test := range map[string]struct {
		leave func(path string)
		want  evidence.State
	}{
		"dead": {func(path string) { leaveDeadClaim(t, path) }, evidence.Dead},
		"elsewhere": {func(path string) {
			putClaim(t, path, evidence.Claim{PID: 42, CreatedAt: time.Now(), Hostname: "elsewhere", BootID: "b", Nonce: "N"})
		}, evidence.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			f := queued(t)
			f.StaleAfter = -1
			test.leave(f.Path)
			looked := false
			first := f.Park(func(step string) {
				if step == lock.StepPeeked && !looked {
					looked = true
					busy := false
					s, err := f.Park(func(step string) { busy = busy || step == lock.StepBusy }).Inspect(t.Context())
					if err != nil || s.State != test.want || busy {
						t.Errorf("the second look: %+v, %v; it looked again: %v", s, err, busy)
					}
				}
			})
			if s := inspect(t, first); s.State != test.want || !looked {
				t.Errorf("the first look: %+v; the second: %v", s, looked)
			}
		})
	}
}

// TestInspect_SeesWaiters: whoever waits is seen, at the sibling, and at the lock file.
func TestInspect_SeesWaiters(t *testing.T) {
	for name, before := range map[string]func(f lock.File){
		"at the sibling":   func(lock.File) {},
		"at the lock file": func(f lock.File) { check(t, os.Remove(f.Path+".flock")) },
	} {
		t.Run(name, func(t *testing.T) {
			f := queuedListed(t)
			holder := start(t, "member", f.Path)
			holder.Do("try", "held")
			if s := inspect(t, f); len(s.Waiters) > 0 {
				t.Errorf("nobody waits: %+v", s.Waiters)
			}
			before(f)
			waiter := beginAcquire(t, t.Context(), f)
			eventually(t, "the waiter is seen", func() bool {
				return slices.ContainsFunc(inspect(t, f).Waiters, func(p lock.Process) bool { return p.PID == os.Getpid() })
			})
			holder.Do("release", "released")
			letGo(t, get(t, waiter).held)
			if s := inspect(t, f); len(s.Waiters) > 0 {
				t.Errorf("nobody waits any more: %+v", s.Waiters)
			}
		})
	}
}
