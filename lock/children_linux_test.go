//go:build !portable

package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/repolock"
	"github.com/holdfast-go/holdfast/platform"
	"golang.org/x/sys/unix"
)

func init() { roles["parent"] = parent }

// parent is a holder with children, as it is told:
//
//	hold, share     "held"
//	child           a child that holds too; grandchild: by way of one that ends at once. Its pid
//	bare            a child that does not
//	release         "released"
//	leave           "left", or "released"
//	die             no answer
//	starve, feed    no answer; without a free descriptor, and with those it had
func parent(path string, orders *bufio.Scanner) {
	f := lock.File{Path: path, Cmd: "parent"}
	var held *lock.FileHold
	var limit unix.Rlimit
	say := func(said string, err error) {
		if err != nil {
			said = "error: " + err.Error()
		}
		fmt.Println(said)
	}
	for orders.Scan() {
		var err error
		switch order := orders.Text(); order {
		case "hold":
			held, err = f.Acquire(context.Background())
			say("held", err)
		case "note":
			say("noted", held.Note("at work"))
		case "share":
			held, err = sharing(f).Acquire(context.Background())
			say("held", err)
		case "child", "grandchild", "bare":
			script := map[string]string{"grandchild": "sleep 1000 >&- & echo $!"}[order]
			if script == "" {
				script = "echo $$; exec sleep 1000 >&-"
			}
			cmd := exec.Command("sh", "-c", script)
			if order != "bare" {
				err = held.Attach(cmd)
			}
			out, _ := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			pid := ""
			if err == nil {
				lines := bufio.NewScanner(out)
				lines.Scan()
				pid = lines.Text()
				go cmd.Wait()
			}
			say(pid, err)
		case "release":
			say("released", held.Release())
		case "starve":
			unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
			unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max})
		case "feed":
			unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		case "die":
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "leave":
			left, err := held.LeaveToChildren()
			say(map[bool]string{true: "left", false: "released"}[left], err)
		}
	}
}

// descendant asks a parent for a child, which is killed at the end of the test.
func descendant(t *testing.T, parent *child, order string) (pid int) {
	t.Helper()
	answer := parent.Say(order)
	pid, err := strconv.Atoi(answer)
	check(t, err, answer)
	p := must(os.FindProcess(pid))(t)
	t.Cleanup(func() { p.Kill() })
	testkit.Eventually(t, "the shell has become what it is told to run", func() bool { return platform.ProgramOf(pid) == "sleep" })
	return pid
}

func killPID(t *testing.T, pid int) {
	t.Helper()
	check(t, syscall.Kill(pid, syscall.SIGKILL))
}

// TestAttach_Killed: the children of a holder that was killed have its lock, until the last
// of them has gone. They are named, and not the dead.
func TestAttach_Killed(t *testing.T) {
	f := queued(t)
	p := start(t, "parent", f.Path)
	p.Do("hold", "held")
	one, two := descendant(t, p, "child"), descendant(t, p, "grandchild")
	descendant(t, p, "bare")
	p.Do("note", "noted")
	p.Kill()
	dead := p.Cmd.Process.Pid
	want := []int{min(one, two), max(one, two)}

	locked := wantLocked(t, f.Path)
	if locked.Info != nil || locked.Gone == nil || locked.Gone.PID != dead || !slices.Equal(pids(locked.Processes), want) || locked.Note != "at work" {
		t.Errorf("%+v; want %d gone, and %v, and the note", locked, dead, want)
	}
	text := fmt.Sprintf("holder (pid %d, %q) has gone; its processes %d (%q), %d (%q) still have the lock", dead, "parent", want[0], "sleep", want[1], "sleep")
	for _, said := range []string{locked.Error(), strings.ToLower(repolock.UserMessage(locked, ""))} {
		if !strings.Contains(said, text) || strings.Contains(said, "end that process") || strings.Contains(said, fmt.Sprint("-p ", dead)) {
			t.Errorf("%s\nwant %s", said, text)
		}
	}
	if s := inspect(t, f); s.State != evidence.Held || s.Info != nil || s.Gone == nil || s.Gone.PID != dead || !slices.Equal(pids(s.Processes), want) {
		t.Errorf("%+v; want %d gone, and %v", s, dead, want)
	}

	next := beginAcquire(t, t.Context(), f)
	parkedIs(t, 1)
	late := wantLocked(t, f.Path) // behind who waits
	that(t, late.Gone != nil && slices.Equal(pids(late.Processes), want), "%+v; want %d gone, and %v", late, dead, want)
	killPID(t, one)
	eventually(t, "one is left", func() bool { return slices.Equal(pids(inspect(t, f).Processes), []int{two}) })
	if len(next) != 0 {
		t.Fatal("the next holder is in beside a child of the last")
	}
	killPID(t, two)
	letGo(t, getHeld(t, next))
	wantFree(t, f.Path)
}

// TestAttach_InContainer: who looks from outside is told the same of a holder in another pid
// namespace, whose pid means nothing there.
func TestAttach_InContainer(t *testing.T) { // guards: S12
	if !withMounts(t) {
		return
	}
	for _, end := range []string{"die", "leave"} {
		t.Run(end, func(t *testing.T) {
			f := queuedListed(t)
			if end == "leave" && platform.Self().PIDFD == 0 {
				t.Skip("needs pidfds with inodes (Linux 6.9), to know one who left and lives on")
			}
			p := testkit.Command(t, "parent", f.Path)
			cmd := exec.Command("sh", append([]string{"-c", `"$0" "$1"; sleep 1000`}, p.Args...)...)
			cmd.Env, cmd.Stderr = p.Env, p.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
			c := testkit.StartCommand(t, cmd)
			c.Do("hold", "held")
			c.Say("child")
			if s := inspect(t, f); s.State != evidence.Held || s.Info == nil || s.Gone != nil || s.Processes != nil {
				t.Errorf("%+v; want a holder who lives", s)
			}
			if l := wantLocked(t, f.Path); l.Info == nil || l.Gone != nil {
				t.Errorf("%+v; want a holder who lives", l)
			}
			c.Order(end)
			var s lock.Status
			eventually(t, "the holder has gone", func() bool {
				s = inspect(t, f)
				return s.Gone != nil
			})
			if s.State != evidence.Held || s.Info != nil || len(s.Processes) != 1 || s.Processes[0].Cmd != "sleep" {
				t.Errorf("%+v; want the child of one who has gone", s)
			}
			if l := wantLocked(t, f.Path); l.Info != nil || l.Gone == nil || len(l.Processes) != 1 || l.Processes[0].Cmd != "sleep" {
				t.Errorf("%+v; want the child of one who has gone", l)
			}
			killPID(t, s.Processes[0].PID)
			takeOver(t, f.Path)
		})
	}
}

// TestHeldAbove_Gone: a lock that a process above has left to its children is not waited for
// by one of them, and is by anybody else. They are named, and not the dead.
func TestHeldAbove_Gone(t *testing.T) { // guards: S2, S12
	f := queued(t)
	p := start(t, "parent", f.Path)
	p.Do("hold", "held")
	child := descendant(t, p, "child")
	p.Kill()
	gone := inspect(t, f).Gone
	if gone == nil {
		t.Fatal("nobody has gone")
	}
	t.Setenv("HOLDFAST_HELD", fmt.Sprintf(`[{"path":%q,"nonce":%q,"pid":%d}]`, f.Path, gone.Nonce, gone.PID))
	if _, err := f.TryAcquire(t.Context()); errors.Is(err, lock.ErrReentrant) || !slices.Equal(pids(asLocked(t, err).Processes), []int{child}) {
		t.Errorf("%v; want it locked by %d, whom one can wait for", err, child)
	}

	shareFile(t, child, f.Path)
	_, err := f.Acquire(t.Context())
	both := []int{child, os.Getpid()}
	slices.Sort(both)
	if !errors.Is(err, lock.ErrReentrant) || !slices.Equal(slices.Sorted(slices.Values(pids(asLocked(t, err).Processes))), both) ||
		strings.Contains(err.Error(), "has it") {
		t.Errorf("%v; want ErrReentrant, and %v named", err, both)
	}
}

// TestNested: a process that has the lock from one above works under that hold, until it is
// released, or whoever has left it to its children; not below a reader.
func TestNested(t *testing.T) { // guards: S12
	for _, how := range []string{"hold", "share"} {
		f := queued(t)
		f.Nested = true
		nested := func(want bool) {
			t.Helper()
			for name, do := range map[string]func(context.Context, func(context.Context, *lock.FileHold) error) error{
				"Do": f.Do, "DoShared": sharing(f).Do,
				"TryDo": func(ctx context.Context, fn func(context.Context, *lock.FileHold) error) error {
					_, err := f.TryDo(ctx, fn)
					return err
				},
			} {
				called := false
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				err := do(ctx, func(fn context.Context, held *lock.FileHold) error {
					called = fn == ctx && held == nil
					return nil
				})
				cancel()
				if called != want || err != nil && want {
					t.Errorf("%s: under the hold above: %v (%v), want %v", name, called, err, want)
				}
			}
			if f.HeldAbove() != want {
				t.Errorf("HeldAbove: %v, want %v", !want, want)
			}
		}
		p := start(t, "parent", f.Path)
		p.Do(how, "held")
		child := descendant(t, p, "child")
		nested(false)
		shareFile(t, child, f.Path)
		nested(how == "hold")
		if how == "hold" {
			p.Kill()
			nested(true)
			continue
		}
		p.Do("release", "released")
		nested(false)
	}
	f := queued(t)
	p := start(t, "parent", f.Path)
	p.Do("hold", "held")
	shareFile(t, descendant(t, p, "child"), f.Path)
	p.Do("release", "released")
	that(t, !f.HeldAbove(), "held above after its release")
}

// shareFile gives this process an open file of another's, as its children have it, until the
// test ends.
func shareFile(t *testing.T, pid int, path string) {
	t.Helper()
	ours := inherit(t, pid, path)
	t.Cleanup(func() { unix.Close(ours) })
}

// TestAttach_Release: what a living holder releases is free, whatever its children do.
func TestAttach_Release(t *testing.T) { // guards: S12
	for _, how := range []string{"hold", "share"} {
		f := queued(t)
		p := start(t, "parent", f.Path)
		p.Do(how, "held")
		descendant(t, p, "child")
		p.Do("release", "released")
		wantFree(t, f.Path)
		letGo(t, tryHold(t, f))
	}
}

// TestAttach_Bare: children that were not attached don't hold.
func TestAttach_Bare(t *testing.T) { // guards: S12
	f := queued(t)
	p := start(t, "parent", f.Path)
	p.Do("hold", "held")
	descendant(t, p, "bare")
	p.Kill()
	takeOver(t, f.Path)
}

// TestAttach_Reader: the child of a dead reader is one itself, if need be the last one.
func TestAttach_Reader(t *testing.T) {
	f := queued(t)
	p := start(t, "parent", f.Path)
	p.Do("share", "held")
	child := descendant(t, p, "child")
	p.Kill()
	if s := inspect(t, f); !s.Shared || s.Gone != nil || s.Info != nil || !slices.Equal(pids(s.Processes), []int{child}) {
		t.Errorf("%+v; want the reader %d", s, child)
	}
	beside := must(sharing(f).TryAcquire(t.Context()))(t)
	next := beginAcquire(t, t.Context(), f)
	parkedIs(t, 1)
	letGo(t, beside)
	if s := inspect(t, f); s.State != evidence.Held || len(next) != 0 {
		t.Errorf("%+v; want the reader %d", s, child)
	}
	killPID(t, child)
	letGo(t, getHeld(t, next))
	// The reader who left looks a few times more whether there is something to clear.
	eventually(t, "nothing is open", func() bool { return len(openUnder(t, filepath.Dir(f.Path))) == 0 })
	wantFree(t, f.Path)
}

// TestLeaveToChildren: a holder that goes leaves the lock to its children, even if its
// process lives on. Without any it is a release.
func TestLeaveToChildren(t *testing.T) {
	for _, how := range []string{"hold", "share"} {
		t.Run(how, func(t *testing.T) {
			f := queued(t)
			p := start(t, "parent", f.Path)
			p.Do(how, "held")
			p.Do("leave", "released") // never attached
			wantFree(t, f.Path)

			p.Do(how, "held")
			gone := descendant(t, p, "child")
			killPID(t, gone)
			eventually(t, "the child has gone", func() bool { return syscall.Kill(gone, 0) != nil })
			p.Do("leave", "released")
			wantFree(t, f.Path)

			p.Do(how, "held")
			child := descendant(t, p, "grandchild")
			p.Do("leave", "left")
			p.Do("leave", "released") // there is nothing to leave any more
			s := inspect(t, f)
			that(t, s.State == evidence.Held, "%+v; want it held", s)
			if s.Shared != (how == "share") || (s.Gone == nil) != s.Shared || s.Info != nil || !slices.Equal(pids(s.Processes), []int{child}) {
				t.Errorf("%+v; want %d", s, child)
			}
			next := beginAcquire(t, t.Context(), f)
			parkedIs(t, 1)
			killPID(t, child)
			letGo(t, getHeld(t, next)) // though the parent lives
			wantFree(t, f.Path)
		})
	}
}

// TestLeaveToChildren_Readers: beside readers who read, of those who left the children are
// named, and none who has the lock is left out.
func TestLeaveToChildren_Readers(t *testing.T) {
	f := queuedListed(t)
	p, killed := start(t, "parent", f.Path), start(t, "parent", f.Path)
	p.Do("share", "held")
	beside := must(sharing(f).TryAcquire(t.Context()))(t)
	killed.Do("share", "held")
	one, two, three := descendant(t, p, "child"), descendant(t, p, "grandchild"), descendant(t, killed, "child")
	p.Do("leave", "left")
	killed.Kill()
	want := []int{os.Getpid(), one, two, three}
	slices.Sort(want)
	if s := inspect(t, f); !s.Shared || s.Info != nil || !slices.Equal(pids(s.Processes), want) {
		t.Errorf("%+v; want %v", s, want)
	}

	// One of them who wants it alone would wait for itself.
	gone := getClaim(t, f.Path)
	t.Setenv("HOLDFAST_HELD", fmt.Sprintf(`[{"path":%q,"nonce":%q,"pid":%d}]`, f.Path, gone.Nonce, p.Cmd.Process.Pid))
	letGo(t, beside)
	if _, err := f.TryAcquire(t.Context()); errors.Is(err, lock.ErrReentrant) {
		t.Errorf("%v; want it locked by others, whom one can wait for", err)
	}
	shareFile(t, one, f.Path)
	wantErr(t, errOf(f.Acquire(t.Context())), lock.ErrReentrant)
}

// TestLeaveToChildren_Ended: when the last child has ended, the claim of a holder who left
// the lock says what is true of it. It did not fail to remove its file.
func TestLeaveToChildren_Ended(t *testing.T) {
	f := queued(t)
	p := start(t, "parent", f.Path)
	p.Do("hold", "held")
	child := descendant(t, p, "grandchild")
	p.Do("leave", "left")
	killPID(t, child)
	var s lock.Status
	eventually(t, "the child has gone", func() bool { s = inspect(t, f); return s.State != evidence.Held })
	if s.State != evidence.Dead || s.Evidence != evidence.SaysReleased || strings.Contains(string(s.Evidence), "remove") {
		t.Errorf("%+v", s)
	}
	takeOver(t, f.Path)
}

// TestLeaveToChildren_NoDescriptors: a process that has no descriptor left can't leave the
// lock, and has it as before. It can still release it, or leave it later.
func TestLeaveToChildren_NoDescriptors(t *testing.T) {
	for _, how := range []string{"hold", "share"} {
		for _, then := range []string{"release", "leave"} {
			t.Run(how+", then "+then, func(t *testing.T) {
				f := queuedListed(t)
				p := start(t, "parent", f.Path)
				p.Do(how, "held")
				child := descendant(t, p, "child")
				p.Order("starve")
				if said := p.Say("leave"); !strings.Contains(said, "error: ") || !strings.Contains(said, unix.EMFILE.Error()) {
					t.Errorf("it says %s", said)
				}
				if s := inspect(t, f); s.State != evidence.Held || s.Info == nil || s.Info.PID != p.Cmd.Process.Pid || s.Gone != nil {
					t.Errorf("%+v; want it held as before", s)
				}
				if then == "release" {
					p.Do("release", "released")
					wantFree(t, f.Path)
					return
				}
				p.Order("feed")
				p.Do("leave", "left")
				if s := inspect(t, f); !slices.Equal(pids(s.Processes), []int{child}) {
					t.Errorf("%+v; want it left to %d", s, child)
				}
			})
		}
	}
}

// TestLeaveToChildren_Lost is a release, which tells.
func TestLeaveToChildren_Lost(t *testing.T) {
	f := queued(t)
	held := tryHold(t, f)
	check(t, held.Attach(exec.Command("true")))
	check(t, os.Remove(f.Path))
	if left, err := held.LeaveToChildren(); left || !errors.Is(err, lock.ErrLost) {
		t.Errorf("left %v, error %v; want ErrLost", left, err)
	}
	wantFree(t, f.Path)
}

// TestAttach_Lost: a lock that is known to be lost is handed to nobody.
func TestAttach_Lost(t *testing.T) {
	f := queued(t)
	held := tryHold(t, f)
	check(t, os.Remove(f.Path))
	if err := held.Note("x"); !errors.Is(err, lock.ErrLost) { // so it knows
		t.Fatal(err)
	}
	cmd := exec.Command("true")
	if err := held.Attach(cmd); !errors.Is(err, lock.ErrLost) || len(cmd.ExtraFiles) != 0 || cmd.Env != nil {
		t.Errorf("%v, %v, %v; want ErrLost", err, cmd.ExtraFiles, cmd.Env)
	}
	wantErr(t, held.Release(), lock.ErrLost)
	wantFree(t, f.Path)
}

// TestAttach_Descriptors: what a child is to inherit anyway stays where it is.
func TestAttach_Descriptors(t *testing.T) {
	f := queued(t)
	held := tryHold(t, f)
	defer letGo(t, held)
	theirs := must(os.Create(filepath.Join(t.TempDir(), "theirs")))(t)
	defer theirs.Close()
	// An agent that was started with a file at descriptor 4, and adds one at 3.
	cmd := testkit.Command(t, "descriptors", f.Path+".its")
	cmd.Stderr = nil // CombinedOutput's
	cmd.ExtraFiles = []*os.File{nil, theirs}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{"", filepath.Base(theirs.Name()), ".lock.its"}
	if got := strings.Split(strings.TrimSpace(string(out)), "\n"); len(got) != 3 ||
		got[0] != os.DevNull || filepath.Base(got[1]) != want[1] || filepath.Base(got[2]) != want[2] {
		t.Errorf("descriptors 3, 4 and 5 of the child are %q; want %s, %q, %q", got, os.DevNull, want[1], want[2])
	}
}

func init() { roles["descriptors"] = descriptors }

func descriptors(path string, _ *bufio.Scanner) {
	syscall.CloseOnExec(0)
	held, err := lock.File{Path: path}.TryAcquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	null, _ := os.Open(os.DevNull)
	// The test binary's own descriptors are close-on-exec, but for those it was given.
	cmd := exec.Command("sh", "-c", "for i in 3 4 5; do readlink /proc/$$/fd/$i; done")
	cmd.ExtraFiles = []*os.File{null}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := held.Attach(cmd); err != nil {
		fmt.Println(err)
		return
	}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
	}
	held.Release()
}

// TestAttach_Unsupported: where the kernel is no proof a child's hold would be none. A lock
// that was released can't be handed on.
func TestAttach_Unsupported(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	held := tryHold(t, f.WithoutKernelLock())
	cmd := exec.Command("true")
	if err := held.Attach(cmd); !errors.Is(err, errors.ErrUnsupported) || len(cmd.ExtraFiles) != 0 {
		t.Errorf("%v, %v; want ErrUnsupported", err, cmd.ExtraFiles)
	}
	letGo(t, held)
	held = tryHold(t, f)
	letGo(t, held)
	if err := held.Attach(cmd); err == nil || len(cmd.ExtraFiles) != 0 {
		t.Errorf("%v, %v; want an error", err, cmd.ExtraFiles)
	}
}
