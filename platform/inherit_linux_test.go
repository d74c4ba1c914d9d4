//go:build !portable

package platform_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
	"golang.org/x/sys/unix"
)

func init() {
	roles["heir"] = func() {
		path := os.Getenv(pathVar)
		given, none := platform.Inherited(3), platform.Inherited(4)
		own, err := platform.Open(path+".own", os.O_RDWR|os.O_CREATE)
		if err == nil {
			err = own.TryLock(platform.Exclusive)
		}
		ids := make([]platform.FileID, 2)
		for i, path := range []string{path, path + ".own"} {
			ids[i], _ = platform.IdentifyFile(path)
		}
		sayAndWait(map[string]bool{
			"given": given != nil, "another": none != nil, "locked its own": err == nil,
			"has it": platform.Inherits(ids[0]), "has its own by another": platform.Inherits(ids[1]),
		})
	}
}

// TestInheritable: a child that was given the open file has its lock, with its parent, and alone
// when the parent has closed it; and can be told from who took it.
func TestInheritable(t *testing.T) {
	path := filepath.Join(listedDir(t), "file")
	f := locked(t, path, platform.Exclusive)
	check(t, f.TryTurnstile())
	id := must(platform.IdentifyFile(path))(t)
	given := must(f.Inheritable())(t)
	defer given.Close()
	if flags, err := unix.FcntlInt(given.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("any child of this process would have it: %#x, %v", flags, err)
	}
	that(t, platform.Inherited(int(given.Fd())) == nil, "what no child gets passes for what is handed to all")
	that(t, !platform.Inherits(id), "this process took the lock itself")

	cmd := testkit.Command(t, "heir")
	cmd.Env = append(cmd.Env, pathVar+"="+path)
	cmd.ExtraFiles = []*os.File{given}
	child := testkit.StartCommand(t, cmd)
	if said, want := child.Answer(), `{"another":false,"given":true,"has it":true,"has its own by another":false,"locked its own":true}`; said != want {
		t.Errorf("the child says %s", said)
	}
	pid := cmd.Process.Pid
	that(t, !listed(t).HasLeft(os.Getpid(), id), "who took it has it")
	check(t, given.Close())
	check(t, f.CloseLocked())
	check(t, f.CloseLocked())
	that(t, listed(t).HasLeft(os.Getpid(), id), "who took it has closed it")
	wantLock(t, "the child has it", path, platform.Exclusive, platform.ErrBusy)
	other := open(t, path)
	noErr(t, other.TryTurnstile(), "the turnstile was left to the child")
	locks := must(platform.ListKernelLocks())(t)
	if heirs := locks.Heirs(id); !slices.Equal(heirs, []platform.Heir{{PID: pid, Taker: os.Getpid()}}) {
		t.Errorf("the heirs are %+v", heirs)
	}
	own := must(platform.IdentifyFile(path + ".own"))(t)
	if heirs := locks.Heirs(own); len(heirs) != 0 {
		t.Errorf("what the child locked itself has heirs: %+v", heirs)
	}
	check(t, child.End())
	wantLock(t, "the child has ended", path, platform.Exclusive, nil)
	that(t, !listed(t).HasLeft(pid, id), "of a process that has gone nothing is known")
}

// TestInherited_NotThere: a number that is no open file's.
func TestInherited_NotThere(t *testing.T) {
	for _, number := range []int{-1, 1 << 20} {
		if f := platform.Inherited(number); f != nil {
			t.Error(strconv.Itoa(number), f)
		}
	}
}

// TestSayWaiting: the word is at the byte that is the time in Unix nanoseconds, as others read
// it, and goes with the turnstile.
func TestSayWaiting(t *testing.T) {
	testkit.NeedsTurnstile(t)
	path := filepath.Join(t.TempDir(), "file")
	f, other := open(t, path), open(t, path)
	since := time.Unix(1767323045, 678901234)
	f.SayWaiting(since)
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: 1767323045678901234, Len: 1}
	if err := unix.FcntlFlock(uintptr(other.Descriptor()), unix.F_OFD_GETLK, &l); err != nil || l.Type != unix.F_RDLCK {
		t.Errorf("there is no word: %+v, %v", l, err)
	}
	if taken, err := other.TurnstileTaken(); err != nil || taken {
		t.Errorf("the word passes for the turnstile: %v, %v", taken, err)
	}
	f.LeaveTurnstile()
	that(t, !other.HasByteLock(), "the word stays")
}

func listed(t *testing.T) platform.KernelLocks {
	t.Helper()
	return must(platform.ListKernelLocks())(t)
}
