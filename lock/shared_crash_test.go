package lock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

// TestShared_Crash kills the first, a middle, or the last of the readers, in
// every order of the others' leaving: those left keep writers out, readers get in,
// and then writers, and nothing is left.
func TestShared_Crash(t *testing.T) { // guards: R2
	const n = 3
	for dies := range n {
		for _, whileOthersHold := range []bool{true, false} {
			f := queued(t)
			var readers []*child
			for range n {
				r := start(t, "member", f.Path)
				r.Do("shared", "held")
				readers = append(readers, r)
			}
			kill := func() { readers[dies].Kill() }
			if whileOthersHold {
				kill()
			}
			for i, r := range readers {
				if i != dies {
					wantLocked(t, f.Path)
					letGo(t, holdShared(t, f))
					r.Do("release", "released")
				}
			}
			if !whileOthersHold {
				wantLocked(t, f.Path)
				kill()
			}
			letGo(t, holdShared(t, f)) // a reader, and then a writer
			takeOver(t, f.Path)
			wantFree(t, f.Path)
		}
	}
}

// TestShared_CrashAtEachStep kills a reader at each step of its protocol, alone
// and beside a reader who lives.
func TestShared_CrashAtEachStep(t *testing.T) { // guards: R2
	type crash struct {
		name, step, acquire string
		beside, dead        bool
	}
	var crashes []crash
	for _, s := range lock.AcquireSteps {
		crashes = append(crashes, crash{"first", s, "shared", false, false})
	}
	for _, s := range lock.AcquireSteps[:2] {
		crashes = append(crashes, crash{"joining", s, "try-shared", true, false})
	}
	for _, s := range lock.ReclaimSteps {
		crashes = append(crashes, crash{"reclaiming", s, "shared", false, true})
	}
	for _, s := range lock.ReaderLeaveSteps {
		crashes = append(crashes, crash{"leaving last", s, "shared", false, false})
	}
	crashes = append(crashes, crash{"leaving", lock.ReaderLeaveSteps[0], "shared", true, false})
	for _, c := range crashes {
		t.Run(c.name+"/"+c.step, func(t *testing.T) {
			f := queued(t)
			if c.dead {
				leaveDeadClaim(t, f.Path)
			}
			var beside *child
			if c.beside {
				beside = start(t, "member", f.Path)
				beside.Do("shared", "held")
			}
			parked := start(t, "member", f.Path)
			parked.Order("park " + c.step)
			if c.name == "leaving" || c.name == "leaving last" {
				parked.Do(c.acquire, "held")
				parked.Do("release", "parked")
			} else {
				parked.Do(c.acquire, "parked")
			}
			if c.beside {
				wantLocked(t, f.Path)
			}
			parked.Kill()
			var reader *lock.FileHold
			promptly(t, "the next reader", func() { reader = holdShared(t, f) })
			wantLocked(t, f.Path)
			if c.beside {
				beside.Do("release", "released")
				wantLocked(t, f.Path)
			}
			letGo(t, reader)
			wantFree(t, f.Path)
			takeOver(t, f.Path)
			wantFree(t, f.Path)
		})
	}
}
