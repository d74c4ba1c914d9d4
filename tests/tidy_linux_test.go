package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// tidyStormVar says how many acquisitions TestTidyStorm has: a few thousand, if it is not
// set.
const tidyStormVar = "HOLDFAST_TIDY_STORM"

const tidyKeys = 1000

func init() { roles["litter"] = litter }

// litter acquires locks of the Dir at args[0] in all ways, until it is killed or its input
// ends, and proves each time by the oracle at args[1] that it is alone, or among readers.
// Some keys are wanted by all. It says "+" for each time.
func litter(args []string) error {
	o, err := openOracle(args[1]) // before any lock: of one who was killed it is closed first
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		close(over)
	}()
	locks := lock.Dir{Path: args[0]}
	for {
		select {
		case <-over:
			return nil
		default:
		}
		o.at = int64(rand.IntN(1 + rand.IntN(tidyKeys)))
		f, err := locks.At(lock.Key{Space: "s", Name: strconv.FormatInt(o.at, 10)})
		if err != nil {
			return err
		}
		shared := rand.IntN(3) == 0
		held, err := scrambleOnce(f, shared)
		var locked *lock.LockedError
		if errors.As(err, &locked) {
			continue
		} else if err != nil {
			return err
		}
		if err := o.enter(shared && held.Info().Mode == "shared"); err != nil {
			return err
		}
		if rand.IntN(8) == 0 {
			time.Sleep(rand.N(time.Millisecond))
		}
		if err := errors.Join(o.leave(), held.Release()); err != nil {
			return err
		}
		fmt.Println("+")
	}
}

// TestTidyStorm: processes that acquire the locks of many keys, release them tidily, and are
// killed. No two have one lock, and in the end nothing is left: what the killed have left,
// Tidy removes, and while they are at work it is in nobody's way.
func TestTidyStorm(t *testing.T) { // guards: S18
	want := testkit.Rounds(4000, 3)
	if n, err := strconv.Atoi(os.Getenv(tidyStormVar)); err == nil {
		want = n
	}
	dir, oracle := filepath.Join(t.TempDir(), "locks"), filepath.Join(t.TempDir(), "oracle")
	children := make([]*testkit.Child, 8)
	begin := func() *testkit.Child { return testkit.Start(t, "litter", dir, oracle) }
	for i := range children {
		children[i] = begin()
	}
	kills, tidied := 0, 0
	for n := 0; n < want; n++ {
		i := rand.IntN(len(children))
		if said := children[i].Answer(); said != "+" {
			t.Fatal(said)
		}
		switch rand.IntN(100) {
		case 0:
			kills++
			children[i].Kill()
			children[i] = begin()
		case 1:
			for file, err := range lock.Tidy(t.Context(), dir, lock.Tidying{}) {
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				if file.Removed {
					tidied++
				}
			}
		}
	}
	for _, c := range children {
		noErr(t, c.End())
	}
	left := below(t, dir)
	if len(left) > 2*kills {
		t.Errorf("%d files are left of %d who were killed: %v", len(left), kills, left)
	}
	for file, err := range lock.Tidy(t.Context(), dir, lock.Tidying{}) {
		that(t, err == nil && file.Removed, "%+v, %v", file, err)
	}
	if still := below(t, dir); len(still) != 0 {
		t.Errorf("in the end there are %v", still)
	}
	t.Logf("%d acquisitions, %d kills; %d files were removed on the way, and %d in the end", want, kills, tidied, len(left))
}

// below returns the files below a folder.
func below(t *testing.T, dir string) (files []string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// scrambleOnce acquires a lock in one of several ways. Where it has given up, the error is an
// *lock.LockedError.
func scrambleOnce(f lock.File, shared bool) (*lock.FileHold, error) {
	ctx := context.Background()
	acquire, try := f.Acquire, f.TryAcquire
	if shared {
		acquire, try = sharing(f).Acquire, sharing(f).TryAcquire
	}
	switch rand.IntN(4) {
	case 0:
		return try(ctx)
	case 1: // and gives up, as a rule
		limited, cancel := context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
		held, err := acquire(limited)
		if err != nil && limited.Err() != nil {
			return nil, &lock.LockedError{}
		}
		return held, err
	}
	return acquire(ctx)
}

// An oracle knows nothing of holdfast: it is the kernel's record lock on a file of its own,
// which says who else has it.
type oracle struct {
	file *os.File
	at   int64 // the byte that stands for the lock
}

func openOracle(path string) (oracle, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	return oracle{file: f}, err
}

func (o oracle) set(cmd int, kind int16) (l syscall.Flock_t, err error) {
	l = syscall.Flock_t{Type: kind, Start: o.at, Len: 1}
	return l, syscall.FcntlFlock(o.file.Fd(), cmd, &l)
}

func (o oracle) enter(shared bool) error {
	kind := int16(syscall.F_WRLCK)
	if shared {
		kind = syscall.F_RDLCK
	}
	for {
		_, err := o.set(syscall.F_SETLK, kind)
		if err != syscall.EAGAIN && err != syscall.EACCES {
			return err
		}
		other, err := o.set(syscall.F_GETLK, kind)
		if err != nil {
			return err
		}
		// Who was killed lets go of its files one by one.
		if other.Type != syscall.F_UNLCK && !isZombie(strconv.Itoa(int(other.Pid))) {
			return fmt.Errorf("NOT ALONE: pid %d is in there too (kind %d, ours %d)", other.Pid, other.Type, kind)
		}
	}
}

func (o oracle) leave() error {
	_, err := o.set(syscall.F_SETLK, syscall.F_UNLCK)
	return err
}
