package platform_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

func init() {
	roles["wait"] = func() { sayAndWait(platform.Self()) }
	roles["nobody"] = nobody
	roles["no files"] = noFiles
	if testkit.Role() == "leaderless" {
		self := platform.Self()
		testkit.WithoutFirstThread(func() { sayAndWait(self) })
	}
}

// sayAndWait tells the parent v, and lives until the parent closes the pipe.
func sayAndWait(v any) {
	if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	io.Copy(io.Discard, os.Stdin)
}

// playRole starts a child in a role, and reads what it says into v.
func playRole(t *testing.T, role string, v any) (child *exec.Cmd, end func()) {
	t.Helper()
	c := testkit.Start(t, role)
	if line := c.Answer(); json.Unmarshal([]byte(line), v) != nil {
		t.Fatalf("role %q said %q", role, line)
	}
	return c.Cmd, func() { _ = c.End() }
}

func wantLiveness(t *testing.T, when string, p platform.Process, want platform.Liveness) {
	t.Helper()
	equal(t, platform.Probe(p), want, when, "liveness")
}

// identities are one process as claims of several kernels and programs name it.
func identities(p platform.Process) map[string]platform.Process {
	byStart, byNothing := p, platform.Process{PID: p.PID}
	byStart.PIDFD = 0
	all := map[string]platform.Process{"by start time": byStart, "by pid alone": byNothing}
	if p.PIDFD != 0 {
		byPIDFD := p
		byPIDFD.Start = 0
		all["by pidfd"], all["by both"] = byPIDFD, p
	}
	return all
}

func TestProbe_Life(t *testing.T) { // guards: E1
	var p platform.Process
	child, _ := playRole(t, "wait", &p)
	if p.PID != child.Process.Pid || p.Start == 0 || p.PIDNamespace != platform.Self().PIDNamespace || p == platform.Self() {
		t.Fatalf("child is %+v", p)
	}
	all := identities(p)
	alive := func(how string) platform.Liveness {
		if how == "by pid alone" {
			return platform.Exists
		}
		return platform.Alive
	}
	for how, id := range all {
		wantLiveness(t, "running, "+how, id, alive(how))
	}

	that(t, !platform.Stopped(p.PID), "running, and stopped")
	check(t, child.Process.Signal(syscall.SIGSTOP))
	testkit.Eventually(t, "the child stops", func() bool { return testkit.State(p.PID) == 'T' })
	that(t, platform.Stopped(p.PID), "the child has stopped, and does not seem so")
	for how, id := range all {
		wantLiveness(t, "stopped, "+how, id, alive(how))
	}

	check(t, child.Process.Kill())
	equal(t, platform.AwaitExit(context.Background(), p, testkit.Patience), platform.Gone, "killed")
	that(t, !platform.Stopped(p.PID), "a zombie is stopped")
	// It has been told that no thread works any more, and may take a while to end.
	testkit.Eventually(t, "the child is a zombie", func() bool { return testkit.State(p.PID) == 'Z' && platform.Probe(p) == platform.Gone })
	noErr(t, syscall.Kill(p.PID, 0), "a zombie answers")
	for how, id := range all {
		wantLiveness(t, "zombie, "+how, id, platform.Gone)
	}

	child.Wait()
	for how, id := range all {
		wantLiveness(t, "reaped, "+how, id, platform.Gone)
	}
}

// TestAwaitExit: it learns, while it waits, that the process has ended, or ctx has.
func TestAwaitExit(t *testing.T) {
	var p platform.Process
	_, end := playRole(t, "wait", &p)
	wait := func(then func(), want platform.Liveness) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		asked := &askedContext{Context: ctx, asked: make(chan struct{})}
		told := make(chan platform.Liveness)
		go func() { told <- platform.AwaitExit(asked, p, 24*time.Hour) }()
		<-asked.asked
		if then == nil {
			then = cancel
		}
		then()
		promptly(t, "AwaitExit", func() {
			equal(t, <-told, want, "liveness")
		})
		cancel()
	}
	wait(nil, platform.Alive)
	wait(end, platform.Gone)
}

// askedContext tells when it is first asked whether it has ended.
type askedContext struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (c *askedContext) Err() error {
	err := c.Context.Err()
	c.once.Do(func() { close(c.asked) })
	return err
}

func TestProbe_PIDReused(t *testing.T) { // guards: E4
	var p platform.Process
	_, end := playRole(t, "wait", &p)
	defer end()
	earlier := p
	earlier.Start, earlier.PIDFD = p.Start-1, 0
	wantLiveness(t, "another start time", earlier, platform.Replaced)
	later := p
	later.Start, later.PIDFD = p.Start+1, 0
	wantLiveness(t, "a later start time", later, platform.Replaced)
	if p.PIDFD != 0 {
		other := p
		other.PIDFD++
		wantLiveness(t, "another pidfd, same start time", other, platform.Replaced)
	}
	shifted := earlier
	shifted.TimeNamespace++
	wantLiveness(t, "a start time of another time namespace", shifted, platform.Exists)
}

func TestProbe_NoSuchPID(t *testing.T) {
	wantLiveness(t, "a pid that none can have", platform.Process{PID: 1<<31 - 1}, platform.Gone)
	if strconv.IntSize == 64 {
		// The kernel sees the lower half only.
		wide := platform.Process{PID: int(int64(os.Getpid()) + 1<<32)}
		if l := platform.Probe(wide); l == platform.Exists || l == platform.Alive {
			t.Errorf("pid %d passes for %d", wide.PID, os.Getpid())
		}
	}
}

// TestProbe_Thread: the number of a thread is no process's.
func TestProbe_Thread(t *testing.T) {
	tids := make(chan int)
	done := make(chan struct{})
	defer close(done)
	// Of two goroutines that keep their threads, one at least is off the first.
	for range 2 {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			tids <- syscall.Gettid()
			<-done
		}()
	}
	tid := <-tids
	if other := <-tids; tid == os.Getpid() {
		tid = other
	}
	noErr(t, syscall.Kill(tid, 0), "kill takes threads' numbers too")
	wantLiveness(t, "thread", platform.Process{PID: tid}, platform.Gone)
	wantLiveness(t, "thread, with a start time", platform.Process{PID: tid, Start: platform.Self().Start, TimeNamespace: platform.Self().TimeNamespace}, platform.Gone)
}

// TestProbe_FirstThreadGone: such a process shows Z, and lives.
func TestProbe_FirstThreadGone(t *testing.T) { // guards: E1
	var p platform.Process
	child, end := playRole(t, "leaderless", &p)
	if s := testkit.State(child.Process.Pid); s != 'Z' {
		t.Fatalf("state is %c, want Z", s)
	}
	for how, id := range identities(p) {
		want := platform.Alive
		if how == "by pid alone" {
			want = platform.Exists
		}
		wantLiveness(t, "first thread gone, "+how, id, want)
	}
	end()
	wantLiveness(t, "ended", p, platform.Gone)
}

// nobody looks at process 1, which it may not signal.
func nobody() {
	if err := testkit.BecomeNobody(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// A start time that is certainly not its own.
	other := platform.Process{PID: 1, Start: 1 << 60, TimeNamespace: platform.Self().TimeNamespace}
	answers := []any{
		syscall.Kill(1, 0) == syscall.EPERM,
		platform.Probe(platform.Process{PID: 1}),
		platform.Probe(other),
		platform.Probe(platform.Self()),
	}
	exhaustDescriptors()
	sayAndWait(append(answers, platform.Probe(platform.Process{PID: 1})))
}

func TestProbe_NotPermitted(t *testing.T) { // guards: E4
	var said []any
	_, end := playRole(t, "nobody", &said)
	defer end()
	for i, want := range []any{true, float64(platform.Exists), float64(platform.Replaced), float64(platform.Alive), float64(platform.Exists)} {
		equal(t, said[i], want, "answer", i)
	}
}

// exhaustDescriptors leaves no way to a pidfd or to /proc.
func exhaustDescriptors() {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	limit.Cur = 64
	if err := errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for err == nil {
		_, err = syscall.Open("/dev/null", syscall.O_RDONLY, 0)
	}
	if err != syscall.EMFILE {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// noFiles probes by what the kernel says of a number alone.
func noFiles() {
	self := platform.Self()
	exhaustDescriptors()
	replaced := self
	replaced.Start++
	sayAndWait([]any{
		platform.Probe(self),
		platform.Probe(replaced),
		platform.Probe(platform.Process{PID: 1<<31 - 1}),
	})
}

func TestProbe_NoDescriptorLeft(t *testing.T) {
	var said []any
	_, end := playRole(t, "no files", &said)
	defer end()
	for i, want := range []any{float64(platform.Exists), float64(platform.Exists), float64(platform.Gone)} {
		equal(t, said[i], want, "answer", i)
	}
}

func TestProbe_LeaksNothing(t *testing.T) {
	before := descriptors(t)
	for range 20 {
		platform.Probe(platform.Self())
		platform.Probe(platform.Process{PID: 1<<31 - 1})
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors became %d", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries := must(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

func TestThisHost_Linux(t *testing.T) { // guards: E5
	host := platform.ThisHost()
	that(t, len(host.BootID) == 36, "boot id is %q", host.BootID)
}

// TestBegan: of this process by what the system has counted since, and of a child between
// two looks at the clock.
func TestBegan(t *testing.T) { // guards: E1
	const tick = 10 * time.Millisecond
	before := time.Now().Add(-2 * tick)
	var p platform.Process
	child, end := playRole(t, "wait", &p)
	after := time.Now().Add(2 * tick)
	began, known := platform.Began(child.Process.Pid)
	if !known || began.Before(before) || began.After(after) {
		t.Errorf("began at %v (%v), between %v and %v", began, known, before, after)
	}
	end()
	if began, known := platform.Began(child.Process.Pid); known {
		t.Errorf("gone, and began at %v", began)
	}
	for _, pid := range []int{0, -1, -1 << 31} {
		if _, known := platform.Began(pid); known {
			t.Errorf("pid %d began", pid)
		}
	}
}

// TestIdentify_Zombie: a process that has exited is none, though nobody has waited for it yet.
func TestIdentify_Zombie(t *testing.T) {
	child := testkit.Start(t, "watched")
	child.Expect("here")
	pid := child.Cmd.Process.Pid
	check(t, child.Cmd.Process.Kill())
	// Its first thread may be a zombie while others have yet to end.
	testkit.Eventually(t, "the child exits", func() bool {
		_, err := platform.Identify(pid)
		return errors.Is(err, os.ErrProcessDone)
	})
	if state := testkit.State(pid); state != 'Z' {
		t.Errorf("its state is %q: who has waited for it?", state)
	}
}
