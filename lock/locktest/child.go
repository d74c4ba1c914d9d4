package locktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/permits"
)

// addressVar tells the test binary to be a child of the suite, and where the locks are.
const addressVar = "HOLDFAST_LOCKTEST_ADDRESS"

var mainCalled bool

// Main makes the process a child of the suite if it was started as one, and then does not
// return. An engine's TestMain calls it first. openAt is Engine.OpenAt.
func Main(openAt func(ctx context.Context, address string) (lock.Locker, error)) {
	mainCalled = true
	address, isChild := os.LookupEnv(addressVar)
	if !isChild {
		return
	}
	l, err := openAt(context.Background(), address)
	if err != nil {
		fmt.Fprintln(os.Stderr, "locktest: child: open:", err)
		os.Exit(1)
	}
	obey(l)
}

// An order tells a child what to do: one line of JSON on standard input. The answer comes
// on standard output.
type order struct {
	Do     string     `json:"do"`
	Key    lock.Key   `json:"key"`
	Keys   []lock.Key `json:"keys,omitempty"`
	Rounds int        `json:"rounds,omitempty"`
	Room   *room      `json:"room,omitempty"`
}

type answer struct {
	Said  string `json:"said"` // held, locked, released, lost, done, or error
	Fence int64  `json:"fence,omitempty"`
	Error string `json:"error,omitempty"`
}

// obey carries out orders until there are none left: then the parent is gone, too.
func obey(l lock.Locker) {
	orders := make(chan order)
	go func() {
		in := json.NewDecoder(os.Stdin)
		for {
			var o order
			if in.Decode(&o) != nil {
				os.Exit(0)
			}
			orders <- o
		}
	}()
	c := obedient{locker: l, holds: &sync.Map{}, pools: map[lock.Key]*permits.Pool{}}
	for o := range orders {
		if a := c.do(context.Background(), o); a != later {
			a.print()
		}
	}
}

// later stands for an answer that is printed when it comes.
var later = answer{}

func (a answer) print() {
	line, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// obedient is the child's side.
type obedient struct {
	locker lock.Locker
	holds  *sync.Map // of lock.Hold, by their keys; a permit by that of its gate
	pools  map[lock.Key]*permits.Pool
}

func (c obedient) held(key lock.Key) lock.Hold {
	h, _ := c.holds.Load(key)
	return h.(lock.Hold)
}

func (c obedient) do(ctx context.Context, o order) answer {
	switch o.Do {
	case "acquire":
		return c.acquired(o.Key)(c.locker.Acquire(ctx, o.Key))
	case "try":
		return c.acquired(o.Key)(c.locker.TryAcquire(ctx, o.Key))
	case "shared":
		return c.acquired(o.Key)(c.locker.(lock.SharedLocker).AcquireShared(ctx, o.Key))
	case "try-shared":
		return c.acquired(o.Key)(c.locker.(lock.SharedLocker).TryAcquireShared(ctx, o.Key))
	case "fence":
		fence, err := c.held(o.Key).Fence()
		return said("done", err).with(fence)
	case "release":
		return said("released", c.held(o.Key).Release())
	case "work":
		return said("done", work(ctx, c.locker, o))
	case "read":
		return said("done", read(ctx, c.locker.(lock.SharedLocker), o))
	case "lead":
		return c.lead(ctx, o)
	case "permits":
		return said("done", takePermits(ctx, c.locker, o))
	case "slots":
		return c.resize(o)
	case "slot":
		go c.takePermit(ctx, c.pools[o.Key], o.Key)
		return later
	case "sets":
		return said("done", takeSets(ctx, c.locker, o.Keys, o.Rounds))
	}
	return said("", fmt.Errorf("no such order: %q", o.Do))
}

func (c obedient) acquired(key lock.Key) func(lock.Hold, error) answer {
	return func(held lock.Hold, err error) answer {
		if err == nil {
			c.holds.Store(key, held)
		}
		return said("held", err)
	}
}

// said is the answer of a child that was to say want.
func said(want string, err error) answer {
	var locked *lock.LockedError
	switch {
	case err == nil:
		return answer{Said: want}
	case errors.As(err, &locked):
		return answer{Said: "locked", Error: err.Error()}
	case errors.Is(err, lock.ErrLost):
		return answer{Said: "lost", Error: err.Error()}
	}
	return answer{Said: "error", Error: err.Error()}
}

func (a answer) with(fence int64) answer {
	a.Fence = fence
	return a
}

// child is the parent's side.
type child struct {
	s       *subtest
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers chan answer // closed when the child is gone
	gone    bool
}

func (s *subtest) start() *child {
	s.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	c := &child{s: s, cmd: exec.Command(exe), answers: make(chan answer)}
	// The race detector need not wait for other goroutines at the end.
	c.cmd.Env = append(os.Environ(), addressVar+"="+s.address, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	c.cmd.Stderr = os.Stderr
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		s.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		defer close(c.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			a := answer{}
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				a = answer{Said: "error", Error: fmt.Sprintf("no answer: %q", lines.Text())}
			}
			select {
			case c.answers <- a:
			case <-s.ctx.Done():
				return
			}
		}
	}()
	s.Cleanup(c.end)
	return c
}

// end lets the child go, and fails the test if it does not end well: the race detector
// tells by the exit status.
func (c *child) end() {
	if c.gone {
		return
	}
	c.gone = true
	c.orders.Close()
	limit := time.AfterFunc(c.s.engine.Patience, func() { c.cmd.Process.Kill() })
	defer limit.Stop()
	if err := c.cmd.Wait(); err != nil {
		c.s.Error("child: ", err)
	}
}

// kill ends the child with SIGKILL, and waits until it has gone.
func (c *child) kill() {
	c.gone = true
	c.cmd.Process.Kill()
	c.cmd.Wait()
	c.bury()
}

// bury tells the engine of a child that has gone.
func (c *child) bury() {
	if _, whole := kills(0); c.s.engine.Buried != nil && !whole {
		c.s.engine.Buried(c.s.T, c.s.address, c.cmd.Process.Pid)
	}
}

func (c *child) order(o order) {
	c.s.Helper()
	line, err := json.Marshal(o)
	if err != nil {
		c.s.Fatal(err)
	}
	if _, err := c.orders.Write(append(line, '\n')); err != nil {
		c.s.Fatalf("child: order %s: %v", line, err)
	}
}

// answer waits for an answer, and checks that it is the one wanted.
func (c *child) answer(want string) answer {
	c.s.Helper()
	a := c.next()
	if a.Said != want {
		c.s.Fatalf("child answered %q (%s), want %q", a.Said, a.Error, want)
	}
	return a
}

// do gives an order, and waits for the answer.
func (c *child) do(o order, want string) answer {
	c.s.Helper()
	c.order(o)
	return c.answer(want)
}

// next waits for an answer, whatever it is.
func (c *child) next() answer {
	c.s.Helper()
	select {
	case a, ok := <-c.answers:
		if !ok {
			c.s.Fatal("child went away without an answer")
		}
		return a
	case <-c.s.ctx.Done():
		c.s.Fatal("child does not answer")
	}
	return answer{}
}
