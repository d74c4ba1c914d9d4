package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// deadClaim is a bare claim of a pid that no process can have.
const deadClaim = `{"pid":2147483647,"created_at":"2024-01-15T10:30:00Z","cmd":"dead"}`

func putDeadClaim(t *testing.T, path string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(deadClaim), 0o600))
}

// TestGoroutinesRaceForDeadLock: exactly one of 64 has it, in every round.
// (The agency command's own code: more than one in 1852 of 3000 rounds.)
func TestGoroutinesRaceForDeadLock(t *testing.T) { // guards: S8
	path := filepath.Join(t.TempDir(), ".lock")
	for round := range testkit.Rounds(1000, 5) {
		putDeadClaim(t, path)
		var (
			ready, done sync.WaitGroup
			gun         = make(chan struct{})
			winners     atomic.Int32
			winner      *lock.FileHold
		)
		for range 64 {
			ready.Add(1)
			done.Go(func() {
				ready.Done()
				<-gun
				held, err := lock.File{Path: path}.TryAcquire(t.Context())
				var locked *lock.LockedError
				switch {
				case err == nil:
					winner = held
					winners.Add(1)
				case !errors.As(err, &locked):
					t.Error(err)
				}
			})
		}
		ready.Wait()
		close(gun)
		done.Wait()
		if n := winners.Load(); n != 1 {
			t.Fatalf("round %d: %d holders, want 1", round, n)
		}
		check(t, winner.Release())
	}
}

// TestProcessesRaceForDeadLock: exactly one of 16 has it, in every round.
func TestProcessesRaceForDeadLock(t *testing.T) { // guards: S8
	path := filepath.Join(t.TempDir(), ".lock")
	var racers []*child
	for range 16 {
		racers = append(racers, start(t, "holder", path))
	}
	for round := range testkit.Rounds(1000, 5) {
		putDeadClaim(t, path)
		for _, r := range racers {
			r.Order("try")
		}
		answers := map[string]int{}
		for _, r := range racers {
			answers[r.Answer()]++
		}
		if answers["held"] != 1 || answers["locked"] != len(racers)-1 {
			t.Fatalf("round %d: %v; want one to hold", round, fmt.Sprint(answers))
		}
		for _, r := range racers {
			r.Do("release", "released")
		}
	}
}

// forgetful acquires a lock, and keeps nothing by which to release it.
func forgetful(path string, orders *bufio.Scanner) {
	for orders.Scan() {
		if _, err := (lock.File{Path: path}).TryAcquire(context.Background()); err != nil {
			fmt.Println("error:", err)
			return
		}
		for range 5 {
			runtime.GC() // cleanups run in their own goroutine, some time after
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Println("collected")
	}
}

// TestCollectedHeldStaysLocked: a holder that is thrown away keeps its lock; the
// garbage collector, which closes files that nobody refers to, must not find it.
func TestCollectedHeldStaysLocked(t *testing.T) { // guards: S11
	path := filepath.Join(t.TempDir(), ".lock")
	start(t, "forgetful", path).Do("forget", "collected")
	equal(t, peek(path+".flock"), platform.ErrBusy, "kernel lock after collection")
}
