//go:build unix

package etcd_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
)

// childLease is that of other processes, which a busy machine must not take it from.
const childLease = 8 * time.Second

// start starts another process, which holds.
func start(t testing.TB, c *cluster, lease time.Duration) *testkit.Child {
	t.Helper()
	return testkit.Start(t, "holder", strings.Join(c.endpoints(), ","), lease.String())
}

// TestHolderStopped: a process that is stopped for longer than its lease has lost the lock,
// knows it when it goes on, and is in nobody's way.
func TestHolderStopped(t *testing.T) {
	t.Parallel()
	l, k := open(t, etcd.Options{}), key()
	c := start(t, server, childLease)
	c.Do("acquire "+k.Name, "held")
	came := begin(l, limited(t), k)
	untilWaiting(t, l, k, 1)
	check(t, c.Cmd.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	held := await(t, "the lock of a process that is stopped", came).mustHave(t)
	t.Logf("had the lock %v after SIGSTOP for its holder, whose lease is %v", time.Since(stopped), childLease)
	continued := time.Now()
	check(t, c.Cmd.Process.Signal(syscall.SIGCONT))
	c.Expect("lost")
	t.Logf("told %v after SIGCONT", time.Since(continued))
	if said := c.Say("release"); said == "released: <nil>" {
		t.Error(said)
	}
	notYet(t, held.Lost(), "the second holder has lost it, too")
	_, err := open(t, etcd.Options{}).TryAcquire(limited(t), k)
	if _, locked := err.(*lock.LockedError); !locked {
		t.Error("two have the lock, or ", err)
	}
	check(t, held.Release())
}

// TestKilled: a holder, a waiter and a reader who were killed are in nobody's way when their
// lease has run out. It prints how long the next one waits.
func TestKilled(t *testing.T) {
	t.Parallel()
	l, k, read := open(t, etcd.Options{}), key(), key()
	holder, waiter, reader := start(t, server, childLease), start(t, server, childLease), start(t, server, childLease)
	holder.Do("acquire "+k.Name, "held")
	waiter.Order("acquire " + k.Name)
	untilWaiting(t, l, k, 1)
	reader.Do("read "+read.Name, "held")
	came, written := begin(l, limited(t), k), begin(l, limited(t), read)
	untilWaiting(t, l, k, 2)
	untilWaiting(t, l, read, 1)
	killed := time.Now()
	for _, c := range []*testkit.Child{holder, waiter, reader} {
		c.Kill()
	}
	held := await(t, "the lock", came).mustHave(t)
	t.Logf("had the lock %v after SIGKILL for its holder, and a waiter, whose lease is %v", time.Since(killed), childLease)
	check(t, held.Release())
	check(t, await(t, "the lock of a reader", written).mustHave(t).Release())
}
