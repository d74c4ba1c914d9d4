//go:build unix

package pg_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/pg"
)

func TestLeaseOfStoppedProcess(t *testing.T) {
	t.Parallel()
	l, k := open(t, pg.Options{}), key()
	c := start(t, server.Conn(), time.Second)
	c.Do("acquire "+k.Name, "held")
	came := begin(l, limited(t), k)
	untilWaiting(t, l, k)
	stopped := time.Now()
	check(t, c.Cmd.Process.Signal(syscall.SIGSTOP))
	held := await(t, "the lock of a process that is stopped", came).mustHave(t)
	t.Logf("had the lock %v after SIGSTOP for its holder, whose lease is 1 s", time.Since(stopped))
	continued := time.Now()
	check(t, c.Cmd.Process.Signal(syscall.SIGCONT))
	if a := c.Answer(); a != "lost" {
		t.Fatal(a)
	}
	t.Logf("told %v after SIGCONT", time.Since(continued))
	notYet(t, held.Lost(), "the second holder has lost it, too")
	check(t, held.Release())
}
