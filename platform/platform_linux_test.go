package platform_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

func init() {
	roles["wait"] = func() { sayAndWait(platform.Self()) }
	roles["nobody"] = nobody
	roles["no files"] = noFiles
	if os.Getenv(roleVar) == "leaderless" {
		leaderless()
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

// leaderless ends the process's first thread, on which init functions run, while
// the others go on.
func leaderless() {
	self := platform.Self()
	go func() {
		first := fmt.Sprintf("/proc/self/task/%d/stat", os.Getpid())
		for {
			stat, err := os.ReadFile(first)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			if state(stat) == 'Z' {
				break
			}
			time.Sleep(time.Millisecond)
		}
		sayAndWait(self)
		os.Exit(0)
	}()
	runtime.LockOSThread()
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

func state(stat []byte) byte { return bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])[0] }

func stateOf(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return state(stat)
}

// playRole starts a child in a role, and reads what it says into v.
func playRole(t *testing.T, role string, v any) (child *exec.Cmd, end func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	promptly(t, "the child", func() {
		line, _ := bufio.NewReader(out).ReadBytes('\n')
		if err := json.Unmarshal(line, v); err != nil {
			t.Errorf("role %q said %q: %v", role, line, err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return cmd, func() {
		in.Close()
		cmd.Wait()
	}
}

func wantLiveness(t *testing.T, when string, p platform.Process, want platform.Liveness) {
	t.Helper()
	if l := platform.Probe(p); l != want {
		t.Errorf("%s: liveness is %d, want %d", when, l, want)
	}
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

func TestProbe_Life(t *testing.T) {
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

	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child stops", func() bool { return stateOf(p.PID) == 'T' })
	for how, id := range all {
		wantLiveness(t, "stopped, "+how, id, alive(how))
	}

	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if l := platform.AwaitExit(context.Background(), p, patience); l != platform.Gone {
		t.Errorf("killed: %d, want Gone", l)
	}
	eventually(t, "the child is a zombie", func() bool { return stateOf(p.PID) == 'Z' })
	if err := syscall.Kill(p.PID, 0); err != nil {
		t.Errorf("a zombie answers: %v", err)
	}
	for how, id := range all {
		wantLiveness(t, "zombie, "+how, id, platform.Gone)
	}

	child.Wait()
	for how, id := range all {
		wantLiveness(t, "reaped, "+how, id, platform.Gone)
	}
}

func TestProbe_PIDReused(t *testing.T) {
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
	if err := syscall.Kill(tid, 0); err != nil {
		t.Errorf("kill takes threads' numbers too: %v", err)
	}
	wantLiveness(t, "thread", platform.Process{PID: tid}, platform.Gone)
	wantLiveness(t, "thread, with a start time", platform.Process{PID: tid, Start: platform.Self().Start, TimeNamespace: platform.Self().TimeNamespace}, platform.Gone)
}

// TestProbe_FirstThreadGone: such a process shows Z, and lives.
func TestProbe_FirstThreadGone(t *testing.T) {
	var p platform.Process
	child, end := playRole(t, "leaderless", &p)
	if s := stateOf(child.Process.Pid); s != 'Z' {
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

const nobodyID = 65534

// nobody looks at process 1, which it may not signal.
func nobody() {
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobodyID), syscall.Setuid(nobodyID)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
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

func TestProbe_NotPermitted(t *testing.T) {
	var said []any
	_, end := playRole(t, "nobody", &said)
	defer end()
	for i, want := range []any{true, float64(platform.Exists), float64(platform.Replaced), float64(platform.Alive), float64(platform.Exists)} {
		if said[i] != want {
			t.Errorf("answer %d is %v, want %v", i, said[i], want)
		}
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
		if said[i] != want {
			t.Errorf("answer %d is %v, want %v", i, said[i], want)
		}
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
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestThisHost_Linux(t *testing.T) {
	host := platform.ThisHost()
	if len(host.BootID) != 36 {
		t.Errorf("boot id is %q", host.BootID)
	}
	// btime, of the same meaning, is in whole seconds.
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), "\nbtime ")
	var btime int64
	if _, err := fmt.Sscan(rest, &btime); err != nil {
		t.Fatal(err)
	}
	if d := host.Booted.Sub(time.Unix(btime, 0)).Abs(); d > patience {
		t.Errorf("booted at %s, /proc/stat says %s", host.Booted, time.Unix(btime, 0))
	}
}

// Kernel locks.

func TestKernelLock_NotAFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(socket)
	t.Chdir(dir) // a socket's address is short
	err = errors.Join(os.Mkdir(path("directory"), 0o700), syscall.Mkfifo(path("fifo"), 0o600),
		syscall.Bind(socket, &syscall.SockaddrUnix{Name: "socket"}),
		os.WriteFile(path("target"), nil, 0o600), os.Symlink("target", path("link")), os.Symlink("absent", path("dangling")))
	if err != nil {
		t.Fatal(err)
	}
	// Let go of a goroutine that hangs.
	t.Cleanup(func() {
		if fd, err := syscall.Open(path("fifo"), syscall.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			syscall.Close(fd)
		}
	})
	for _, name := range []string{"directory", "fifo", "socket", "link", "dangling"} {
		t.Run(name, func(t *testing.T) {
			before := descriptors(t)
			promptly(t, "TryKernelLock", func() {
				if _, err := platform.TryKernelLock(path(name), platform.Exclusive); err == nil || err == platform.ErrBusy || errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("TryKernelLock: %v", err)
				}
			})
			promptly(t, "WaitKernelLock", func() {
				if _, err := platform.WaitKernelLock(path(name), platform.Shared); err == nil || errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("WaitKernelLock: %v", err)
				}
			})
			promptly(t, "PeekKernelLock", func() {
				if err := platform.PeekKernelLock(path(name)); err == nil || err == platform.ErrBusy || errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("PeekKernelLock: %v", err)
				}
			})
			promptly(t, "TryTurnstile", func() {
				// Nothing to take, though the system may say so in its own way.
				if turnstile, err := platform.TryTurnstile(path(name)); turnstile != nil || err == platform.ErrBusy {
					turnstile.Open()
					t.Errorf("TryTurnstile: %v", err)
				}
			})
			promptly(t, "ReadRegular", func() {
				if _, _, err := platform.ReadRegular(path(name), 100); !errors.Is(err, platform.ErrNotRegular) {
					t.Errorf("ReadRegular: %v", err)
				}
			})
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors became %d", before, after)
			}
		})
	}
	if _, err := os.Lstat(path("absent")); err == nil {
		t.Error("created what a dangling link names")
	}
}

func TestKernelLock_ReadOnlyFile(t *testing.T) {
	if os.Geteuid() == 0 {
		// Permissions do not bind root. Run this test as somebody else.
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestKernelLock_ReadOnlyFile$", "-test.v")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
		cmd.Dir = "/"
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
			t.Errorf("as another user: %v\n%s", err, out)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "sibling")
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := platform.TryKernelLock(path, platform.Exclusive); !errors.Is(err, os.ErrPermission) {
		t.Errorf("TryKernelLock: %v, want permission denied", err)
	}
	if err := platform.PeekKernelLock(path); err != nil {
		t.Errorf("PeekKernelLock: %v", err)
	}
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := platform.PeekKernelLock(path); !errors.Is(err, os.ErrPermission) {
		t.Errorf("PeekKernelLock of what may not be read: %v", err)
	}
	if _, info, err := platform.ReadRegular(path, 10); !errors.Is(err, os.ErrPermission) || info == nil {
		t.Errorf("ReadRegular of what may not be read: %v, %v", info, err)
	}
}

// TestKernelLock_NotInherited: a child has none of our descriptors.
func TestKernelLock_NotInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	k := tryLock(t, path, platform.Exclusive)
	var p platform.Process
	child, end := playRole(t, "wait", &p)
	defer end()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", child.Process.Pid))
	if err != nil || len(links) == 0 {
		t.Fatal(links, err)
	}
	for _, link := range links {
		if target, _ := os.Readlink(link); target == path {
			t.Error("the child has the file open")
		}
	}
	unlock(t, k)
	unlock(t, tryLock(t, path, platform.Exclusive))
}

// The turnstile.

func TestTurnstile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	first, err := platform.TryTurnstile(path)
	if err != nil {
		t.Fatal(err)
	}
	if first == nil {
		t.Skip("needs Linux 3.15, for locks of open files")
	}
	if _, err := platform.TryTurnstile(path); err != platform.ErrBusy {
		t.Errorf("a second one: %v, want ErrBusy", err)
	}
	// It and the kernel lock don't see each other.
	k := tryLock(t, path, platform.Exclusive)
	through := make(chan *platform.Turnstile)
	go func() {
		next, err := platform.WaitTurnstile(path)
		if err != nil {
			t.Error(err)
		}
		through <- next
	}()
	before := descriptors(t)
	first.Open()
	promptly(t, "WaitTurnstile", func() { (<-through).Open() })
	if after := descriptors(t); after >= before {
		t.Errorf("%d descriptors became %d", before, after)
	}
	again, err := platform.TryTurnstile(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Open()
	if err := platform.PeekKernelLock(path); err != platform.ErrBusy {
		t.Errorf("the turnstile took the kernel lock along: %v", err)
	}
	unlock(t, k)
	(*platform.Turnstile)(nil).Open()
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTryUnqueued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	try := func(want error, when string) {
		t.Helper()
		k, err := platform.TryUnqueued(path)
		if err != want {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
		if k != nil {
			unlock(t, k)
		}
	}
	try(nil, "free, and not there yet")
	turnstile, err := platform.TryTurnstile(path)
	if err != nil {
		t.Fatal(err)
	}
	try(platform.ErrBusy, "free, with somebody in the queue")
	turnstile.Open()
	k := tryLock(t, path, platform.Exclusive)
	try(platform.ErrBusy, "held")
	unlock(t, k)
	try(nil, "free again")
}

// A turnstile and a kernel lock share an open file, and end in either order.
func TestTurnstile_KernelLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	before := descriptors(t)
	free := func(want error, when string) {
		t.Helper()
		if err := platform.PeekKernelLock(path); err != want {
			t.Errorf("%s, the kernel lock: %v, want %v", when, err, want)
		}
	}
	queue := func(want error, when string) {
		t.Helper()
		turnstile, err := platform.TryTurnstile(path)
		if err != want {
			t.Errorf("%s, the turnstile: %v, want %v", when, err, want)
		}
		turnstile.Open()
	}
	for _, lockFirst := range []bool{true, false} {
		turnstile, err := platform.TryTurnstile(path)
		if err != nil {
			t.Fatal(err)
		}
		k, err := turnstile.TryKernelLock(platform.Exclusive)
		if err != nil {
			t.Fatal(err)
		}
		if now := descriptors(t); now != before+1 {
			t.Errorf("%d descriptors became %d", before, now)
		}
		free(platform.ErrBusy, "both had")
		queue(platform.ErrBusy, "both had")
		if lockFirst {
			unlock(t, k)
			free(nil, "lock dropped")
			queue(platform.ErrBusy, "lock dropped")
			turnstile.Open()
		} else {
			turnstile.Open()
			free(platform.ErrBusy, "turnstile open")
			queue(nil, "turnstile open")
			unlock(t, k)
		}
		unlock(t, k) // again
		turnstile.Open()
		free(nil, "both over")
		queue(nil, "both over")
		if now := descriptors(t); now != before {
			t.Errorf("%d descriptors became %d", before, now)
		}
		// What it locked is closed; the path is opened anew.
		if k, err = turnstile.WaitKernelLock(platform.Shared); err != nil {
			t.Fatal(err)
		}
		unlock(t, k)
	}

	// It is opened while its lock is waited for: the wait goes on.
	holder := tryLock(t, path, platform.Exclusive)
	turnstile, err := platform.TryTurnstile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turnstile.TryKernelLock(platform.Shared); err != platform.ErrBusy {
		t.Errorf("a busy lock: %v, want ErrBusy", err)
	}
	came := make(chan *platform.KernelLock)
	go func() {
		k, err := turnstile.WaitKernelLock(platform.Exclusive)
		if err != nil {
			t.Error(err)
		}
		came <- k
	}()
	turnstile.Open()
	queue(nil, "abandoned")
	unlock(t, holder)
	promptly(t, "WaitKernelLock", func() { unlock(t, <-came) })
}

// listedDir is a folder whose files /proc/locks names as stat does.
func listedDir(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{t.TempDir(), "/dev/shm"} {
		fsys, err := platform.FilesystemOf(dir)
		if err != nil {
			continue
		}
		switch fsys.Kind {
		case "ext4", "xfs", "tmpfs":
			sub, err := os.MkdirTemp(dir, "holdfast-test")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(sub) })
			return sub
		}
	}
	t.Skip("needs ext4, xfs or tmpfs at the temporary folder or at /dev/shm")
	return ""
}

func TestListKernelLocks(t *testing.T) {
	path := filepath.Join(listedDir(t), "sibling")
	held := func() bool {
		t.Helper()
		locks, err := platform.ListKernelLocks()
		if err != nil {
			t.Fatal(err)
		}
		id, err := platform.IdentifyFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return locks.Held(id)
	}
	for _, mode := range []platform.Mode{platform.Exclusive, platform.Shared} {
		k := tryLock(t, path, mode)
		if !held() {
			t.Errorf("held in mode %v, and not in the list", mode)
		}
		unlock(t, k)
		if held() {
			t.Error("in the list after it was dropped")
		}
	}
	// Locks of other kinds are not ours.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	if held() {
		t.Error("a lock of fcntl(2) passes for one of flock(2)")
	}
	if (platform.KernelLocks{}).Held(platform.FileID{}) {
		t.Error("the zero value knows of a lock")
	}
}

// Files.

func TestCreateIncomplete_Umask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o027, 0o077, 0o177} {
		path := filepath.Join(t.TempDir(), "file")
		old := syscall.Umask(umask)
		f, err := platform.CreateIncomplete(path)
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		before, err := os.Lstat(path)
		if err != nil || before.Mode() != 0o200 || !platform.IsIncomplete(before) {
			t.Errorf("umask %04o: created as %v (%v)", umask, before.Mode(), err)
		}
		if err := f.MarkComplete(); err != nil {
			t.Error(err)
		}
		if after, err := os.Lstat(path); err != nil || after.Mode() != 0o600 {
			t.Errorf("umask %04o: completed as %v (%v)", umask, after.Mode(), err)
		}
		f.Close()
	}
}

// TestIdentifyFile_InodeReused: a file deleted and made anew is another one, even
// in the same inode, once the filesystem's clock has gone on (4 ms on ext4).
func TestIdentifyFile_InodeReused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	make := func() platform.FileID {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := platform.IdentifyFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if id.Birth == 0 {
			if fsys, err := platform.FilesystemOf(path); err != nil || fsys.Kind == "ext4" || fsys.Kind == "xfs" || fsys.Kind == "btrfs" {
				t.Fatalf("no time of birth on %s (%v)", fsys.Kind, err)
			}
			t.Skip("needs a filesystem that keeps the time of birth")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := make()
	var next platform.FileID
	eventually(t, "a file is made in another moment", func() bool {
		next = make()
		return next.Birth != first.Birth
	})
	if age := time.Since(time.Unix(0, first.Birth)); age < -patience || age > 2*patience {
		t.Errorf("born %s ago", age)
	}
	if next == first {
		t.Errorf("two files are %v", first)
	}
	t.Logf("inode %d, then %d", first.Ino, next.Ino)
}

func TestIdentifyFile_DoesNotFollow(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, nil, 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	a, err := platform.IdentifyFile(target)
	b, berr := platform.IdentifyFile(link)
	if err := errors.Join(err, berr); err != nil {
		t.Fatal(err)
	}
	if a == b {
		t.Error("followed the link")
	}
	info, err := os.Lstat(target)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if a.Dev != st.Dev || a.Ino != st.Ino {
		t.Errorf("target is %v, link is %v, stat says %d:%d", a, b, st.Dev, st.Ino)
	}
}

// Filesystems.

// mountedAs is another way to learn a path's filesystem: /proc/self/mountinfo,
// whose third field is the device and whose type follows " - ".
func mountedAs(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	dev := info.Sys().(*syscall.Stat_t).Dev
	number := fmt.Sprintf("%d:%d", dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(before); len(f) > 2 && f[2] == number {
			return strings.Fields(after)[0]
		}
	}
	return ""
}

func TestFilesystemOf(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/dev/shm", "/", "/proc", "/sys"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		want := mountedAs(t, path)
		got, err := platform.FilesystemOf(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if want == "ext2" || want == "ext3" {
			want = "ext4" // one number for the three
		}
		if want != "" && got.Kind != want {
			t.Errorf("%s is %q, mounted as %q", path, got.Kind, want)
		}
		trusted := map[string]bool{"ext4": true, "xfs": true, "btrfs": true, "zfs": true, "f2fs": true, "tmpfs": true, "overlay": true}
		if got.Trusted != trusted[got.Kind] {
			t.Errorf("%s, %q: trusted is %v", path, got.Kind, got.Trusted)
		}
	}
}
