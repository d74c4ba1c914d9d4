package locktest_test

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
	"github.com/holdfast-go/holdfast/platform"
)

func TestMain(m *testing.M) {
	if os.Getenv(brokenVar) != "" {
		locktest.Main(openBroken)
	}
	locktest.Main(openDir)
	os.Exit(testkit.Run(m))
}

func openDir(_ context.Context, address string) (lock.Locker, error) {
	return lock.Dir{Path: address}, nil
}

var dirEngine = locktest.Engine{
	Address: func(t *testing.T) string { return t.TempDir() },
	OpenAt:  openDir,
	Lose: func(t *testing.T, _ string, _ lock.Key, held lock.Hold) {
		if err := os.Remove(held.(*lock.FileHold).Path()); err != nil {
			t.Fatal(err)
		}
	},
	NoShared:     !platform.OwnLocks,
	HidesWaiters: !listsLocks(),
}

func listsLocks() bool {
	_, err := platform.ListKernelLocks()
	return err == nil
}

func TestDir(t *testing.T) { locktest.Run(t, dirEngine) }
