package lock_test

import (
	"os"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// TestTryAcquire_FileGone: a lock file that somebody had locked, and that goes while it is tried,
// is in nobody's way.
func TestTryAcquire_FileGone(t *testing.T) {
	f := queued(t)
	putDeadClaim(t, f.Path)
	other, err := lockFile(f.Path, platform.Exclusive)
	check(t, err)
	defer other.Close()
	remove := sync.OnceFunc(func() {
		if err := os.Remove(f.Path); err != nil {
			t.Error(err)
		}
	})
	held, err := f.Park(func(step string) {
		if step == lock.StepBusy {
			remove()
		}
	}).TryAcquire(t.Context())
	check(t, err)
	letGo(t, held)
}
