package pg_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
)

// router makes a network of a test's own, behind a router that can fall silent: it drops
// what it should hand on, and says nothing.
func router(t *testing.T) (server string, inside []string, silence func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to have a network of its own")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip (Debian: iproute2), to have a network of its own")
	}
	n := os.Getpid() % 250
	r, c := fmt.Sprint("hfr", os.Getpid()), fmt.Sprint("hfc", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v %s", args, err, out)
		}
	}
	forward := func(on int) {
		ip("netns", "exec", r, "sh", "-c", fmt.Sprintf("echo %d >/proc/sys/net/ipv4/ip_forward", on))
	}
	for _, ns := range []string{r, c} {
		if out, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
			t.Skipf("needs the right to make networks (CAP_NET_ADMIN, CAP_SYS_ADMIN), to have one of its own: %v %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
	}
	at := func(host int) string { return fmt.Sprintf("198.18.%d.%d", n, host) } // a range for tests
	ip("link", "add", r, "type", "veth", "peer", "name", "near", "netns", r)
	ip("addr", "add", at(1)+"/30", "dev", r)
	ip("link", "set", r, "up")
	ip("-n", r, "link", "add", "far", "type", "veth", "peer", "name", "near", "netns", c)
	for _, end := range [][3]string{{r, "near", at(2)}, {r, "far", at(5)}, {c, "near", at(6)}} {
		ip("-n", end[0], "addr", "add", end[2]+"/30", "dev", end[1])
		ip("-n", end[0], "link", "set", end[1], "up")
	}
	ip("-n", c, "route", "add", "default", "via", at(5))
	ip("route", "add", at(4)+"/30", "via", at(2))
	forward(1)
	return at(1), []string{"ip", "netns", "exec", c}, func() { forward(0) }
}

// TestRouterFallsSilent, for one process that holds a lock and one that waits for another.
// The first is told; the second is granted its lock, and does not keep it, though the
// answer to it is never acknowledged, which keeps keepalives from being sent.
func TestRouterFallsSilent(t *testing.T) {
	t.Parallel()
	at, inside, silence := router(t)
	s := must(pgtest.Start("listen_addresses='" + at + "'"))(t)
	defer func() { check(t, s.Stop()) }()
	other, held, waited := open(t, pg.Options{Conn: s.Conn()}), key(), key()
	far := fmt.Sprintf("host=%s port=5432 user=holdfast dbname=postgres sslmode=disable", at)
	holder, waiter := startBy(t, inside, far, 0), startBy(t, inside, far, 0)
	holder.Do("acquire "+held.Name, "held")
	mine := acquire(t, other, waited)
	waiter.Order("acquire " + waited.Name)
	untilWaiting(t, other, waited)
	silence()
	check(t, mine.Release())
	check(t, acquire(t, other, waited).Release())
	holder.Expect("lost")
	check(t, acquire(t, other, held).Release())
	wantIdle(t, other)
}
