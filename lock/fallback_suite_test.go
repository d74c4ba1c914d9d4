package lock_test

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

func openFallback(_ context.Context, address string) (lock.Locker, error) {
	return lock.Dir{Path: address, File: lock.File{}.WithoutKernelLock()}, nil
}

// TestFallback_Suite: without kernel locks, a folder of locks passes the suite that every
// engine passes.
func TestFallback_Suite(t *testing.T) { // guards: R4, T1
	locktest.Run(t, locktest.Engine{
		Address: func(t *testing.T) string { return t.TempDir() },
		OpenAt:  openFallback,
		Lose: func(t *testing.T, _ string, _ lock.Key, held lock.Hold) {
			check(t, os.Remove(held.(*lock.FileHold).Path()))
		},
		NoShared:     true,
		HidesWaiters: true,
	})
}
