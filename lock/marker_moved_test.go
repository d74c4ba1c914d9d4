package lock_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestMarker_GoneAtALook: a marker that has gone by the time that its lock is had is in
// nobody's way.
func TestMarker_GoneAtALook(t *testing.T) { // guards: B3
	file := withKernelLock(fallbackFile(t))
	marker := file.Path + ".reclaim"
	putClaim(t, file.Path, formerClaim(t))
	putFile(t, marker, []byte("{}"), time.Time{}) // whose nobody knows
	looks := 0
	letGo(t, tryHold(t, file.Park(func(step string) {
		if step != lock.StepFound {
			return
		}
		if looks++; looks == 2 { // the first is at the lock file
			check(t, os.Remove(marker))
		}
	})))
	that(t, looks >= 2, "nobody looked at the marker")
}

// TestMarker_ReplacedWhileMade: whoever makes a marker, and finds another's in its place,
// leaves the reclaiming to them.
func TestMarker_ReplacedWhileMade(t *testing.T) { // guards: B3
	needsMarks(t)
	for _, at := range []string{lock.StepMarkerCreated, lock.StepMarkerLocked} {
		t.Run(at, func(t *testing.T) {
			file := withKernelLock(fallbackFile(t))
			marker := file.Path + ".reclaim"
			putClaim(t, file.Path, formerClaim(t))
			var before map[string]fileState
			l := notHad(t, file.Park(func(step string) {
				if step == at && before == nil {
					check(t, os.Remove(marker))
					putFile(t, marker, []byte("{}"), time.Time{})
					before = treeState(t, filepath.Dir(file.Path))
				}
			}))
			equal(t, l.Evidence, evidence.BeingReclaimed, "evidence")
			sameTree(t, before, treeState(t, filepath.Dir(file.Path)))
		})
	}
}
