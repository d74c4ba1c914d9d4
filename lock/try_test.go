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
	other := must(lockFile(f.Path, platform.Exclusive))(t)
	defer other.Close()
	remove := sync.OnceFunc(func() {
		noErr(t, os.Remove(f.Path))
	})
	held := must(f.Park(func(step string) {
		if step == lock.StepBusy {
			remove()
		}
	}).TryAcquire(t.Context()))(t)
	letGo(t, held)
}
