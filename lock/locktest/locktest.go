// Package locktest checks that an engine of locks, a lock.Locker, does what holdfast
// promises: it excludes goroutines and processes from each other, whatever becomes of them,
// and its waits, errors and looks are those of every other engine.
//
// An engine's tests have a TestMain that calls Main, and one test that calls Run. The suite
// starts the test binary again, to have other processes:
//
//	func TestMain(m *testing.M) {
//		locktest.Main(open)
//		os.Exit(m.Run())
//	}
//
//	func open(ctx context.Context, address string) (lock.Locker, error) {
//		return lock.Dir{Path: address}, nil
//	}
//
//	func TestDir(t *testing.T) {
//		locktest.Run(t, locktest.Engine{
//			Address: func(t *testing.T) string { return t.TempDir() },
//			OpenAt:  open,
//		})
//	}
//
// Nothing in the suite depends on how long something takes. What never comes fails after
// Engine.Patience.
package locktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// Engine tells the suite what it has to know of an engine.
type Engine struct {
	// Address says, in one text, where locks are: a folder, a database. Every subtest asks
	// for one. It may be the same each time, and others' locks may be there: every subtest
	// uses its own keys.
	Address func(t *testing.T) string
	// OpenAt opens the locks at an address, in this process or another. What it returns
	// is closed if it has a method Close, with or without an error.
	OpenAt func(ctx context.Context, address string) (lock.Locker, error)

	// Key makes a key of a number between 1 and 2^31-1. Different numbers must give
	// different keys. nil makes plain names.
	Key func(n int) lock.Key

	// Lose takes a lock from its holder behind its back. nil leaves out the subtests of
	// lost locks.
	Lose func(t *testing.T, address string, key lock.Key, held lock.Hold)
	// NoticesLoss says that a holder learns of its loss while it holds, and that others can
	// acquire the lock from then on. Otherwise Release tells of the loss, and frees the lock.
	NoticesLoss bool

	// LosesStopped says that a process which is stopped for long may lose its locks. The
	// suite then stops none.
	LosesStopped bool
	// HidesWaiters says that Inspect and List can't show waiters. The suite then can't tell when there is
	// a waiter, and checks less.
	HidesWaiters bool
	// NoShared says that shared locks exclude each other. Without it, they are tested if
	// the Locker is a lock.SharedLocker.
	NoShared bool

	// Buried, if it is set, is told of each process that the suite has seen end. It is for
	// engines that keep the locks of the dead for a time, and may have them freed sooner. The
	// suite then does not show that they are freed without it: the engine's other tests have
	// to. It is not called where HOLDFAST_LOCKTEST_KILLS is set.
	Buried func(t *testing.T, address string, pid int)

	// Patience bounds what must not hang, in each subtest; 0 means two minutes.
	Patience time.Duration
}

// Run runs the suite, in parallel subtests. Main must have been called.
func Run(t *testing.T, e Engine) {
	if !mainCalled {
		t.Fatal("locktest.Main must be called first in TestMain")
	}
	if e.Key == nil {
		e.Key = func(n int) lock.Key { return lock.Key{Space: "locktest", Name: fmt.Sprint("key-", n)} }
	}
	if e.Patience == 0 {
		e.Patience = 2 * time.Minute
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(newSubtest(t, e))
				})
			}
		})
	}
}

type group struct {
	name  string
	tests []test
}

type test struct {
	name string
	run  func(*subtest)
}

var groups = []group{
	{"Exclusion", exclusionTests},
	{"Try", tryTests},
	{"Wait", waitTests},
	{"Reentrant", reentrantTests},
	{"Do", doTests},
	{"Release", releaseTests},
	{"Fence", fenceTests},
	{"Death", deathTests},
	{"Lost", lostTests},
	{"Set", setTests},
	{"Key", keyTests},
	{"Inspect", inspectTests},
	{"List", listTests},
	{"Shared", sharedTests},
	{"Elect", electTests},
	{"Permits", permitTests},
}

// lastKey makes keys of this process's own. Other processes may test on the same locks;
// that they come upon other keys is left to chance.
var lastKey atomic.Int64

func init() { lastKey.Store(rand.Int64N(1 << 30)) }
