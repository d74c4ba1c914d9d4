package dispatch_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lock/dispatch"
)

// TestRelease_ExactlyOnce: of 100 goroutines, each with a copy of the claim, one is
// told that it has released it.
func TestRelease_ExactlyOnce(t *testing.T) {
	dir := t.TempDir()
	for range 20 {
		claim := acquire(t, dir)
		var all sync.WaitGroup
		outcomes := make(chan dispatch.Outcome, 100)
		begin := make(chan struct{})
		for range cap(outcomes) {
			all.Add(1)
			go func(own dispatch.Claim) {
				defer all.Done()
				<-begin
				outcome, err := own.Release()
				noErr(t, err)
				outcomes <- outcome
			}(*claim)
		}
		close(begin)
		all.Wait()
		count := map[dispatch.Outcome]int{}
		for range cap(outcomes) {
			count[<-outcomes]++
		}
		if count[dispatch.OutcomeReleased] != 1 || count[dispatch.OutcomeAbsent] != 99 {
			t.Fatalf("outcomes: %v", count)
		}
	}
}

// TestRelease_LateSparesSuccessor: whoever releases after somebody else has got the
// id, takes nothing from them.
func TestRelease_LateSparesSuccessor(t *testing.T) {
	dir := t.TempDir()
	first := acquire(t, dir)
	release(t, first, dispatch.OutcomeReleased)
	second := acquire(t, dir)
	before := contents(t, dir)
	release(t, first, dispatch.OutcomeNotOwned)
	if after := contents(t, dir); after != before {
		t.Errorf("a late release changed\n%s\nto\n%s", before, after)
	}
	release(t, second, dispatch.OutcomeReleased)
	release(t, second, dispatch.OutcomeAbsent)
}

// TestRelease_OnlyWhileTheNonceIsOurs: a claim that was taken away by hand, and what
// lies there instead, is left alone; afterwards this process has nothing any more.
func TestRelease_OnlyWhileTheNonceIsOurs(t *testing.T) {
	for name, text := range map[string][]byte{
		"another program's claim": foreign(t, fields{"pid": os.Getpid()}),
		"a dead program's claim":  foreign(t, nil),
		"an empty file":           nil,
		"text":                    []byte("hello"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			claim := acquire(t, dir)
			check(t, os.Remove(lockPath(dir)))
			put(t, lockPath(dir), text)
			before := contents(t, dir)
			release(t, claim, dispatch.OutcomeNotOwned)
			release(t, claim, dispatch.OutcomeNotOwned)
			if after := contents(t, dir); after != before {
				t.Errorf("changed\n%s\nto\n%s", before, after)
			}
			check(t, os.Remove(lockPath(dir)))
			taken(t, dir)
		})
	}

	// Written over, with a nonce that is not ours, in the very same file.
	dir := t.TempDir()
	claim := acquire(t, dir)
	text := read(t, lockPath(dir))
	put(t, lockPath(dir), bytes.ReplaceAll(text, []byte(claim.Nonce), []byte(strings.Repeat("0", len(claim.Nonce)))))
	release(t, claim, dispatch.OutcomeNotOwned)

	// A copy of it is nobody's.
	dir = t.TempDir()
	claim = acquire(t, dir)
	text = read(t, lockPath(dir))
	check(t, os.Remove(lockPath(dir)))
	put(t, lockPath(dir), text)
	release(t, claim, dispatch.OutcomeNotOwned)
	taken(t, dir)
}

// TestRelease_RemovedByHand: there is nothing to release, and the id is free.
func TestRelease_RemovedByHand(t *testing.T) {
	dir := t.TempDir()
	claim := acquire(t, dir)
	check(t, os.Remove(lockPath(dir)))
	release(t, claim, dispatch.OutcomeAbsent)
	release(t, claim, dispatch.OutcomeAbsent)
	taken(t, dir)

	// With its folder.
	dir = filepath.Join(t.TempDir(), "locks")
	claim = acquire(t, dir)
	check(t, os.RemoveAll(dir))
	release(t, claim, dispatch.OutcomeAbsent)
	taken(t, dir)
}

// TestRelease_AnotherGoroutine, and another directory to work in.
func TestRelease_AnotherGoroutine(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	claim := acquire(t, "locks")
	equal(t, claim.LockPath, filepath.Join(top, "locks", id+".lock"), "lock path")
	t.Chdir(t.TempDir())
	done := make(chan struct{})
	go func() {
		defer close(done)
		release(t, claim, dispatch.OutcomeReleased)
	}()
	<-done
	taken(t, filepath.Join(top, "locks"))
}

// TestRelease_ReadBack: a claim that was read from disk, or from a message, shows who
// has the id, and is no right to release it.
func TestRelease_ReadBack(t *testing.T) {
	dir := t.TempDir()
	claim := acquire(t, dir)
	var copied dispatch.Claim
	check(t, json.Unmarshal(read(t, lockPath(dir)), &copied))
	release(t, &copied, dispatch.OutcomeNotOwned)
	release(t, claim, dispatch.OutcomeReleased)
	release(t, &copied, dispatch.OutcomeAbsent)
}
