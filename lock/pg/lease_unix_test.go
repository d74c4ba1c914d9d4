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
	if a := c.do("acquire " + k.Name); a != "held" {
		t.Fatal(a)
	}
	came := begin(l, limited(t), k)
	untilWaiting(t, l, k)
	stopped := time.Now()
	check(t, c.cmd.Process.Signal(syscall.SIGSTOP))
	held := await(t, "the lock of a process that is stopped", came).mustHave(t)
	t.Logf("had the lock %v after SIGSTOP for its holder, whose lease is 1 s", time.Since(stopped))
	continued := time.Now()
	check(t, c.cmd.Process.Signal(syscall.SIGCONT))
	if a := await(t, "word of the loss", c.lines); a != "lost" {
		t.Fatal(a)
	}
	t.Logf("told %v after SIGCONT", time.Since(continued))
	select {
	case <-held.Lost():
		t.Error("the second holder has lost it, too")
	default:
	}
	check(t, held.Release())
}
