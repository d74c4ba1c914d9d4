package etcd_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	"github.com/holdfast-go/holdfast/lock/locktest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// serverVar names an etcd to be tested with, of another version say: the path of the
// program.
const serverVar = "HOLDFAST_ETCD_SERVER"

// server is the cluster, of one member, that most tests share.
var server *cluster

func TestMain(m *testing.M) {
	if text := os.Getenv(memberVar); text != "" {
		if err := beMember(text); err != nil {
			fmt.Fprintln(os.Stderr, "member:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	locktest.Main(openAt)
	testkit.Play(func(_ string, args []string) { holder(args[0], args[1], bufio.NewScanner(os.Stdin)) })
	os.Exit(run(m))
}

var (
	check      = testkit.Check
	that       = testkit.That
	notYet     = testkit.NotYet
	eventually = testkit.Eventually
	errOf      = testkit.ErrOf
	noErr      = testkit.NoErr
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

func run(m *testing.M) int {
	flag.Parse()
	if !isSet("test.parallel") {
		_ = flag.Set("test.parallel", "16") // most tests wait for leases to end
	}
	var err error
	if server, err = startCluster(1, memberConfig{Program: os.Getenv(serverVar)}); err != nil {
		fmt.Fprintln(os.Stderr, "etcd: ", err)
		return 1
	}
	defer server.end()
	return testkit.Run(withGuarded{m})
}

// isSet reports whether a flag was given.
func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// withGuarded ends the clusters that tests share, before testkit looks what is left.
type withGuarded struct{ *testing.M }

func (g withGuarded) Run() int {
	defer endGuarded()
	return g.M.Run()
}

// patience bounds what must not hang.
const patience = time.Minute

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open opens the locks of a cluster for a test, by a client of their own if there is none.
func open(t testing.TB, o etcd.Options) *etcd.Locker {
	t.Helper()
	if o.Client == nil {
		o.Client = server.client(t)
	}
	l := must(etcd.Open(limited(t), o))(t)
	t.Cleanup(func() {
		if t.Failed() {
			go l.Close() // which may wait for ever
			return
		}
		l.Close()
	})
	return l
}

var lastKey atomic.Int64

// key returns one that nobody has used.
func key() lock.Key {
	return lock.Key{Space: "test", Name: fmt.Sprint(os.Getpid(), "-", lastKey.Add(1))}
}

// folder is what the keys of a lock begin with.
func folder(k lock.Key) string { return "holdfast/locks/" + k.Space + "/" + k.Name + "/" }

func acquire(t testing.TB, l lock.Locker, k lock.Key) *etcd.Hold {
	t.Helper()
	held := must(l.Acquire(limited(t), k))(t)
	t.Cleanup(func() { _ = held.Release() })
	return held.(*etcd.Hold)
}

func wantIs(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		that(t, errors.Is(err, target), "error %v does not match %q", err, target)
	}
}

type outcome struct {
	held lock.Hold
	err  error
}

func (o outcome) mustHave(t testing.TB) *etcd.Hold {
	t.Helper()
	check(t, o.err)
	t.Cleanup(func() { _ = o.held.Release() })
	return o.held.(*etcd.Hold)
}

// begin acquires in another goroutine.
func begin(l lock.Locker, ctx context.Context, k lock.Key) <-chan outcome {
	came := make(chan outcome, 1)
	go func() {
		held, err := l.Acquire(ctx, k)
		came <- outcome{held, err}
	}()
	return came
}

// untilWaiting waits until so many wait for a lock.
func untilWaiting(t testing.TB, l lock.Locker, k lock.Key, n int) {
	t.Helper()
	eventually(t, "who waits is listed", func() bool {
		s := must(l.Inspect(limited(t), k))(t)
		return len(s.Waiters) == n
	})
}

// await waits for a channel.
func await[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("never happened: ", what)
	}
	return v
}

// count is how many keys begin with this.
func count(t testing.TB, c *clientv3.Client, prefix string) int {
	t.Helper()
	answer := must(c.Get(limited(t), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly()))(t)
	return int(answer.Count)
}

func wantNoKeys(t testing.TB, c *clientv3.Client, prefix string) {
	t.Helper()
	equal(t, count(t, c, prefix), 0, "keys are left below", prefix)
}

// holder acquires and releases one lock as it is told, and says when it is lost.
func holder(endpoints, lease string, orders *bufio.Scanner) {
	ctx := context.Background()
	l, err := openAt(ctx, lease+" "+endpoints)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	var held lock.Hold
	for orders.Scan() {
		order, name, _ := strings.Cut(orders.Text(), " ")
		switch order {
		case "acquire", "read":
			acquire := l.Acquire
			if order == "read" {
				acquire = l.(lock.SharedLocker).AcquireShared
			}
			if held, err = acquire(ctx, lock.Key{Space: "test", Name: name}); err != nil {
				fmt.Println("error:", err)
				continue
			}
			go func() {
				<-held.Lost()
				fmt.Println("lost")
			}()
			fmt.Println("held")
		case "release":
			fmt.Println("released:", held.Release())
		}
	}
}
