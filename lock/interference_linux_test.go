package lock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/queue"
	"github.com/holdfast-go/holdfast/platform"
)

// Backups, mounts, clocks and other programs, between the steps of ours.

// TestLinked: a file that was made, and is overtaken before it is locked, stays under the
// name that a backup (cp -al) gave it. That is not the lock's.
func TestLinked(t *testing.T) { // guards: B1
	needsMarks(t)
	for name, give := range map[string]func(old, new string) error{"link": os.Link, "rename": os.Rename} {
		t.Run(name, func(t *testing.T) {
			f := queued(t)
			first := start(t, "member", f.Path)
			first.Order("park " + lock.StepCreated)
			first.Do("try", "parked")
			check(t, give(f.Path, f.Path+".backup"))
			removeSibling(t, f.Path)
			second := tryHold(t, f)
			first.Do("go", "locked: "+string(evidence.KernelLockHeld))
			letGo(t, second)
			first.Do("try", "held")
			first.Do("release", "released")
		})
	}
}

// TestLinkedBack: a claim that was released is put back from a hard link. Its maker lives on,
// and does not hold it.
func TestLinkedBack(t *testing.T) { // guards: S14, E0
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: -1}
	held := tryHold(t, f)
	check(t, os.Link(f.Path, f.Path+".backup"))
	letGo(t, held)
	check(t, os.Rename(f.Path+".backup", f.Path))
	wantStatus(t, inspect(t, f), evidence.Dead, evidence.SaysReleased)
	letGo(t, tryHold(t, f))
}

// TestLinkedBack_NeverHeld: so it is for a claim that was whole, and never came to its path.
func TestLinkedBack_NeverHeld(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), "lock"), StaleAfter: -1}.WithoutKernelLock()
	var first *lock.FileHold
	notHad(t, f.Park(func(step string) {
		if step == lock.StepWritten && first == nil {
			aside, err := filepath.Glob(f.Path + ".reclaim.*")
			if err != nil || len(aside) != 1 {
				t.Fatal(aside, err)
			}
			check(t, os.Link(aside[0], f.Path+".backup"))
			first = tryHold(t, f)
		}
	}))
	letGo(t, first)
	check(t, os.Rename(f.Path+".backup", f.Path))
	wantStatus(t, inspect(t, f), evidence.Dead, evidence.SaysReleased)
	letGo(t, tryHold(t, f))
}

// TestCancelledAtALook: who is cancelled while somebody looks at the file that they have
// just made leaves nothing.
func TestCancelledAtALook(t *testing.T) { // guards: A1, S19
	needsMarks(t)
	for _, name := range []string{"Acquire", "TryAcquire"} {
		t.Run(name, func(t *testing.T) {
			f := queued(t)
			ctx, cancel := context.WithCancel(t.Context())
			var look *platform.File
			_, err := acquirers[name](f.Park(func(step string) {
				if step == lock.StepCreated {
					var err error
					if look, err = lockFile(f.Path, platform.Exclusive); err != nil {
						t.Error(err)
					}
					cancel()
				}
			}), ctx)
			wantErr(t, err, context.Canceled)
			check(t, look.Close())
			eventually(t, "nothing is left", func() bool { _, err := os.Lstat(f.Path); return err != nil })
			wantFree(t, f.Path)
		})
	}
}

// TestLastReaderMeetsALook: somebody has the readers' file for an instant, just when its last
// reader leaves, and may be stopped there. Once they let go it is removed all the same.
func TestLastReaderMeetsALook(t *testing.T) { // guards: A5, R2
	for _, name := range []string{"AcquireShared", "TryAcquireShared"} {
		t.Run(name, func(t *testing.T) {
			f := queued(t)
			var look *platform.File
			reader := must(acquirers[name](f.Park(func(step string) {
				if step == lock.StepSharedDropped {
					var err error
					if look, err = lockFile(f.Path, platform.Exclusive); err != nil {
						t.Error(err)
					}
				}
			}), t.Context()))(t)
			letGo(t, reader)
			parkedIs(t, 1) // who waits to remove it
			check(t, look.Close())
			eventually(t, "the readers' file is gone", func() bool { return !testkit.Exists(f.Path) })
			wantFree(t, f.Path)
		})
	}
}

// TestReaderMeetsOthersReaders: a reader waits for the file of another program, which has
// it locked shared, in the kernel.
func TestReaderMeetsOthersReaders(t *testing.T) { // guards: A3
	f := queued(t)
	putFile(t, f.Path, []byte(`{"pid":2147483646,"created_at":"2020-01-02T03:04:05Z"}`), time.Time{})
	theirs := must(lockFile(f.Path, platform.Shared))(t)
	if _, err := sharing(f).TryAcquire(t.Context()); asLocked(t, err).Evidence != evidence.KernelLockHeld {
		t.Error(err)
	}
	reader := beginShared(t, f)
	parkedIs(t, 1)
	check(t, theirs.Close())
	letGo(t, getHeld(t, reader))
	wantFree(t, f.Path)
}

// TestReaderMeetsAMaker: a reader finds the readers' file while another has made it and not
// yet written the claim. It waits for that, and not for the other to leave.
func TestReaderMeetsAMaker(t *testing.T) { // guards: A3
	needsMarks(t)
	f := queued(t)
	maker := start(t, "member", f.Path)
	maker.Order("park " + lock.StepOwnLocked)
	maker.Do("shared", "parked")
	met := make(chan struct{}, 1000)
	reader := beginShared(t, f.Park(func(step string) {
		if step == "readers' file being made" {
			met <- struct{}{}
		}
	}))
	for range 3 {
		<-met
	}
	maker.Do("go", "held")
	letGo(t, getHeld(t, reader))
	maker.Do("release", "released")
	wantFree(t, f.Path)
}

// TestBreakForce_Alive: nobody who is proven alive is broken, by whatever proof.
func TestBreakForce_Alive(t *testing.T) { // guards: E1
	path := filepath.Join(t.TempDir(), ".lock")
	holder := start(t, "member", path)
	holder.Order("fallback")
	holder.Do("try", "held")
	nonce := getClaim(t, path).Nonce
	for name, f := range map[string]lock.File{"fallback": lock.File{Path: path}.WithoutKernelLock(), "free": {Path: path}} {
		untouched(t, filepath.Dir(path), func() {
			if _, err := f.BreakForce(t.Context(), nonce); asLocked(t, err).Evidence != evidence.SameProcess {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	holder.Do("release", "released")

	data := must(json.Marshal(evidence.Claim{PID: os.Getpid(), CreatedAt: time.Now(), Nonce: "N"}))(t)
	putFile(t, path, data, time.Time{})
	if _, err := (lock.File{Path: path}).BreakForce(t.Context(), "N"); asLocked(t, err).Evidence != evidence.BeganBefore {
		t.Error(err)
	}
	// Nor is a claim without a nonce to be broken by one that is empty.
	putFile(t, path, []byte(`{"pid":2147483646,"created_at":"2020-01-02T03:04:05Z","hostname":"elsewhere"}`), time.Time{})
	if _, err := (lock.File{Path: path}).BreakForce(t.Context(), ""); asLocked(t, err).Evidence != evidence.OtherNonce {
		t.Error(err)
	}
}

// TestNotPowerLost: a program that knows only O_EXCL gives its file a size before it
// writes to it.
func TestNotPowerLost(t *testing.T) { // guards: E5
	needsLeases(t)
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: -1}
	putFile(t, f.Path, make([]byte, 64), longAgo)
	theirs := must(os.OpenFile(f.Path, os.O_RDWR, 0))(t)
	equal(t, asLocked(t, tryErr(t, f)).Evidence, evidence.Unreadable)
	check(t, theirs.Close())
	letGo(t, tryHold(t, f))
}

// TestStuck_WaitLeftBehind: a wait at a turnstile where somebody stands who is stopped was
// given up before they were overtaken. Whoever adopts it overtakes them.
func TestStuck_WaitLeftBehind(t *testing.T) { // guards: W3
	needsTurnstile(t)
	f := queued(t)
	held := tryHold(t, f)
	first := start(t, "member", f.Path)
	first.Do("acquire", "waiting")
	waitedFor(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := beginAcquire(t, ctx, f)
	parkedIs(t, 1)
	cancel()
	get(t, gaveUp)
	first.Stop()
	letGo(t, held)
	letGo(t, getHeld(t, beginAcquire(t, t.Context(), f)))
	first.Continue()
	first.Expect("held")
	first.Do("release", "released")
	wantFree(t, f.Path)
}

// TestStuck_NoThreadLeft: whoever may not park a thread overtakes too.
func TestStuck_NoThreadLeft(t *testing.T) { // guards: W3
	needsTurnstile(t)
	f := queued(t)
	var others []*lock.FileHold
	for range queue.MaxParked {
		other := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
		others = append(others, tryHold(t, other))
		ctx, cancel := context.WithCancel(t.Context())
		came := beginAcquire(t, ctx, other)
		eventually(t, "a thread is parked", func() bool { return lock.Parked() == len(others) })
		cancel()
		get(t, came)
	}
	letGo(t, tryHold(t, f)) // makes the sibling
	turnstile := must(takeTurnstile(f.Path + ".flock"))(t)
	watched, parks := countingSteps(f, lock.StepParks)
	letGo(t, getHeld(t, beginAcquire(t, t.Context(), watched)))
	if n := parks.Load(); n != 2 {
		t.Errorf("it was overtaken at look %d; want the second", n)
	}
	for _, mode := range []func(context.Context) (*lock.FileHold, error){sharing(f).TryAcquire, sharing(f).Acquire} {
		held := must(mode(t.Context()))(t)
		letGo(t, held)
	}
	turnstile.Close()
	for _, held := range others {
		letGo(t, held)
	}
	wantFree(t, f.Path)
}

// TestMarkerKept: a marker that can't be looked at for a moment, when it is to go, says
// that it was released.
func TestMarkerKept(t *testing.T) {
	if !asNobody(t) {
		return
	}
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: -1}
	putDeadClaim(t, f.Path)
	folder := filepath.Dir(f.Path)
	_, err := f.Park(func(step string) {
		if step == lock.StepReread {
			noErr(t, os.Chmod(folder, 0))
		}
	}).TryAcquire(t.Context())
	check(t, errors.Join(os.Chmod(folder, 0o700)))
	wantErr(t, err, os.ErrPermission)
	letGo(t, tryHold(t, f))
	wantFree(t, f.Path)
}

// TestLeftAside: what a crash leaves of a claim that was written aside goes in the end, and
// not before.
func TestLeftAside(t *testing.T) {
	for _, age := range []time.Duration{time.Minute, 3 * time.Hour} {
		f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: -1}.WithoutKernelLock()
		aside := f.Path + ".reclaim.AAAABBBBCCCCDDDDEEEEFFFFGG"
		putFile(t, aside, nil, time.Now().Add(-age))
		letGo(t, tryHold(t, f))
		if _, err := os.Lstat(aside); (err == nil) != (age == time.Minute) {
			t.Errorf("%v old: %v", age, err)
		}
	}
}

// overlay gives a folder, and what mounts it again as an overlay.
func overlay(t *testing.T) (underneath string, above func() (at string, unmount func())) {
	t.Helper()
	root := mount(t, "tmpfs", "")
	var folder [4]string
	for i, name := range []string{"lower", "upper", "work", "at"} {
		folder[i] = filepath.Join(root, name)
		check(t, os.Mkdir(folder[i], 0o755))
	}
	return folder[1], func() (string, func()) {
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", folder[0], folder[1], folder[2])
		if err := syscall.Mount("overlay", folder[3], "overlay", 0, options); err != nil {
			t.Skip("needs overlays: ", err)
		}
		unmount := sync.OnceFunc(func() {
			noErr(t, syscall.Unmount(folder[3], 0), "unmount")
		})
		t.Cleanup(unmount)
		return folder[3], unmount
	}
}

// TestOverlay_HalfAClaim: one folder as an overlay and underneath: a file without a claim
// does not say on which side its maker has it locked.
func TestOverlay_HalfAClaim(t *testing.T) { // guards: E3
	if !withMounts(t) {
		return
	}
	for _, name := range []string{"made above", "made underneath"} {
		t.Run(name, func(t *testing.T) {
			under, mountAbove := overlay(t)
			above, _ := mountAbove()
			maker, other := lock.File{Path: filepath.Join(above, ".lock")}, lock.File{Path: filepath.Join(under, ".lock")}
			if name == "made underneath" {
				maker, other = other, maker
			}
			var second *lock.FileHold
			first, err := maker.Park(func(step string) {
				if step == lock.StepChecked {
					second, _ = other.TryAcquire(t.Context())
				}
			}).TryAcquire(t.Context())
			switch {
			case first != nil && second != nil:
				t.Error("two have it")
			case first == nil && second == nil:
				t.Error("nobody has it: ", err)
			}
			for _, held := range []*lock.FileHold{first, second} {
				if held != nil {
					letGo(t, held)
				}
			}
		})
	}
}

// TestOverlay_MountedAnew: a container is killed while it holds a lock on its own root, and
// started again: the same boot, another pid namespace, another device number.
func TestOverlay_MountedAnew(t *testing.T) { // guards: E2
	if !withMounts(t) {
		return
	}
	_, mountAbove := overlay(t)
	above, unmount := mountAbove()
	path := filepath.Join(above, ".lock")
	cmd := testkit.Command(t, "member", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	holder := testkit.StartCommand(t, cmd)
	holder.Do("try", "held")
	holder.Kill()
	unmount()
	mount(t, "tmpfs", "") // takes the device number, as another container's would
	mountAbove()
	f := lock.File{Path: path, StaleAfter: -1}
	wantStatus(t, inspect(t, f), evidence.Dead, evidence.KernelLockFree)
	letGo(t, tryHold(t, f))
}

// TestOverlay_LeftAside: on an overlay a claim is written aside, under one name; a crash
// leaves it there, and whoever comes next removes it.
func TestOverlay_LeftAside(t *testing.T) { // guards: S6
	if !withMounts(t) {
		return
	}
	_, mountAbove := overlay(t)
	above, _ := mountAbove()
	f := lock.File{Path: filepath.Join(above, ".lock"), StaleAfter: -1}
	putFile(t, f.Path+".reclaim.new", []byte(`{"pi`), time.Time{})
	letGo(t, tryHold(t, f))
	wantFree(t, f.Path)
}

// TestFallback_KernelSaysSo: a system call filter stands for a kernel without flock(2).
func TestFallback_KernelSaysSo(t *testing.T) { // guards: T1
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace, to have flock(2) fail")
	}
	dir := t.TempDir()
	child := testkit.Command(t, "without-flock", filepath.Join(dir, ".lock"))
	cmd := exec.Command(strace, append([]string{"-f", "-qq", "-o", os.DevNull, "-e", "trace=flock", "-e", "inject=flock:error=ENOSYS"}, child.Args...)...)
	cmd.Env = child.Env
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "ptrace") {
		t.Skipf("needs to be allowed to trace: %s", out)
	}
	that(t, err == nil && string(out) == "done\n", "%v: %s", err, out)
	equal(t, names(t, dir), ".lock.flock", "left behind")
}

func init() { roles["without-flock"] = withoutFlock }

func withoutFlock(path string, _ *bufio.Scanner) {
	ctx := context.Background()
	f := lock.File{Path: path}
	fail := func(what string, err error) {
		fmt.Println(what, err)
		os.Exit(1)
	}
	locked := func(what string, err error) {
		if !errors.As(err, new(*lock.LockedError)) {
			fail(what, err)
		}
	}
	opened := func() int {
		entries, _ := os.ReadDir("/proc/self/fd")
		return len(entries)
	}
	reader, err := sharing(f).TryAcquire(ctx)
	if err != nil {
		fail("a reader", err)
	}
	_, err = sharing(f).TryAcquire(ctx)
	locked("another reader", err)
	_, err = f.AcquireWithin(ctx, 10*time.Millisecond)
	locked("a writer", err)
	if _, err = f.BreakForce(ctx, reader.Info().Nonce); !errors.As(err, new(*lock.LockedError)) {
		fail("break", err)
	}
	if err := reader.Release(); err != nil {
		fail("release", err)
	}
	before := opened()
	for range 10 {
		held, err := f.Acquire(ctx)
		if err != nil {
			fail("acquire", err)
		}
		if err := held.Release(); err != nil {
			fail("release", err)
		}
		required := f
		required.RequireKernelLock = true
		if _, err := required.Acquire(ctx); !errors.Is(err, errors.ErrUnsupported) {
			fail("required", err)
		}
	}
	if after := opened(); after > before+2 { // the runtime may open its own
		fail(fmt.Sprintf("%d files are open, of %d", after, before), nil)
	}
	fmt.Println("done")
}
