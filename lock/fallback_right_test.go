package lock_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestFallback_Right: in fallback mode one process alone may remove a dead holder's file,
// whatever becomes of the marker. That it may says nothing of a later file at the path.
func TestFallback_Right(t *testing.T) { // guards: T1
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
	equal(t, notHad(t, file).Evidence, evidence.BeingReclaimed, "evidence")
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
	if left := names(t, filepath.Dir(file.Path)); left != "" {
		t.Errorf("there are %s", left) // a right is given back whatever came of it
	}
}

// TestFallback_AlienMarkers: an acquirer who clears away what dead reclaimers have left takes
// no file whose name this package does not give.
func TestFallback_AlienMarkers(t *testing.T) {
	file := fallbackFile(t)
	for _, name := range []string{".txt", ".NEW", ".new.txt", "." + strings.Repeat("A", 25), "." + strings.Repeat("g", 32)} {
		putFile(t, file.Path+".reclaim"+name, nil, time.Now().Add(-72*time.Hour))
	}
	ours := []string{".new", "." + strings.Repeat("A", 26), "." + strings.Repeat("0", 32)}
	for _, name := range ours {
		putFile(t, file.Path+".reclaim"+name, nil, time.Now().Add(-72*time.Hour))
	}
	before := names(t, filepath.Dir(file.Path))
	letGo(t, tryHold(t, file))
	after := names(t, filepath.Dir(file.Path))
	for _, name := range ours {
		before = strings.Replace(before+" ", filepath.Base(file.Path)+".reclaim"+name+" ", "", 1)
		before = strings.TrimSpace(before)
	}
	equal(t, after, before)
}
