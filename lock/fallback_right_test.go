package lock_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

// TestFallback_Right: in fallback mode one process alone may remove a dead holder's file,
// whatever becomes of the marker. That it may says nothing of a later file at the path.
func TestFallback_Right(t *testing.T) {
	file := fallbackFile(t)
	marker := file.Path + ".reclaim"
	dead := formerClaim(t)
	putClaim(t, file.Path, dead)

	mayRemove, goOn, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := file.Park(func(step string) {
			if step == lock.StepReread {
				close(mayRemove)
				<-goOn
			}
		}).TryAcquire(context.Background())
		over <- err
	}()
	promptly(t, "reclaiming", func() { <-mayRemove })
	check(t, os.Remove(marker)) // as somebody would who takes its maker for dead
	before := treeState(t, filepath.Dir(file.Path))
	if l := notHad(t, file); l.Evidence != lock.EvidenceBeingReclaimed {
		t.Errorf("evidence is %q", l.Evidence)
	}
	sameTree(t, before, treeState(t, filepath.Dir(file.Path)))

	check(t, os.Remove(file.Path))
	dead.Nonce = "LATER"
	putClaim(t, file.Path, dead)
	held := tryHold(t, file)
	close(goOn)
	if l := asLocked(t, <-over); l.Info == nil || l.Info.Nonce != held.Info().Nonce {
		t.Errorf("who was slow found %+v; want the present holder", l.Info)
	}
	letGo(t, held)
}
