// Package locktest checks that an engine of locks, a lock.Locker, does what holdfast
// promises: that it excludes goroutines and processes from each other whatever becomes of
// them, and that its waits, errors and lists are those of every other engine.
//
// An engine's tests have a TestMain that calls Main, as the suite starts the test binary
// again to have other processes, and one test that calls Run:
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
// Nothing in the suite goes by how long something takes. What never comes fails after
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

// Engine is what the suite has to know of an engine.
type Engine struct {
	// Address says, in one text, where locks are: a folder, a database. Every subtest
	// asks for one. It may be the same each time, with locks of others' in it, as every
	// subtest uses keys of its own.
	Address func(t *testing.T) string
	// OpenAt opens the locks at an address, in this process or another. What it returns
	// is closed if it has a method Close, with or without an error.
	OpenAt func(ctx context.Context, address string) (lock.Locker, error)

	// Key makes a key of a number between 1 and 2^31-1. Different numbers must give
	// different keys. nil makes names that are words.
	Key func(n int) lock.Key

	// Lose takes a lock away from its holder behind its back. nil leaves out the
	// subtests of lost locks.
	Lose func(t *testing.T, address string, key lock.Key, held lock.Hold)
	// NoticesLoss says that a holder learns of its loss while it holds, and that others
	// can have the lock from then on; else Release tells, and frees it.
	NoticesLoss bool

	// LosesStopped says that a process which is stopped for long may lose its locks. The
	// suite then stops none.
	LosesStopped bool
	// HidesWaiters says that List can't show who waits. The suite then can't tell when
	// somebody does, and checks less.
	HidesWaiters bool
	// NoShared says that shared locks exclude each other. Without it, they are tested if
	// the Locker is a lock.SharedLocker.
	NoShared bool

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
	{"List", listTests},
	{"Shared", sharedTests},
}

// lastKey makes keys of this process's own. That other processes, which may test on the
// same locks, come upon the same ones is left to chance.
var lastKey atomic.Int64

func init() { lastKey.Store(rand.Int64N(1 << 30)) }
