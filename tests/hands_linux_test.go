package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// Chaos with hostile hands: processes that read and write, wait, try and give up, and are
// killed at any moment, while somebody takes the lock's files away.

// chaosKillsVar says how many kills there are to be: a few hundred, if it is not set.
const chaosKillsVar = "HOLDFAST_CHAOS_KILLS"

func chaosKills(t *testing.T) int {
	text := os.Getenv(chaosKillsVar)
	if text == "" {
		return 300
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(chaosKillsVar, ": ", err)
	}
	return n
}

func init() { roles["scramble"] = scramble }

// scramble acquires the lock at args[0] in all ways again and again, until it is killed, and
// proves each time by the oracle at args[1] that it is alone, or among readers. It says "+" for
// each time, and "lost" for a lock that was taken from it. Where a third argument says so, the
// filesystem may fail.
func scramble(args []string) error {
	fails := func(err error) bool { return len(args) > 2 && errors.Is(err, syscall.EIO) }
	f := lock.File{Path: args[0], Cmd: "scramble"}
	o, err := openOracle(args[1])
	if err != nil {
		return err
	}
	for {
		shared := rand.IntN(2) == 0
		held, err := scrambleOnce(f, shared)
		var locked *lock.ErrLocked
		if errors.As(err, &locked) || fails(err) {
			continue
		} else if err != nil {
			return err
		}
		// On a filesystem that is not trusted shared means exclusive.
		if err := o.enter(shared && held.Info().Mode == "shared"); err != nil {
			return err
		}
		if n := rand.IntN(4); n > 0 {
			time.Sleep(rand.N(time.Duration(n*n) * 100 * time.Microsecond))
		}
		if err := o.leave(); err != nil {
			return err
		}
		said := "+"
		if err := held.Release(); errors.Is(err, lock.ErrLost) {
			said = "lost"
		} else if err != nil && !fails(err) {
			return err
		}
		fmt.Println(said)
	}
}

func scrambleOnce(f lock.File, shared bool) (*lock.FileHold, error) {
	ctx := context.Background()
	acquire, try := f.Acquire, f.TryAcquire
	if shared {
		acquire, try = f.AcquireShared, f.TryAcquireShared
	}
	switch rand.IntN(4) {
	case 0:
		return try(ctx)
	case 1: // and gives up, as a rule
		limited, cancel := context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
		held, err := acquire(limited)
		if err != nil && limited.Err() != nil {
			return nil, &lock.ErrLocked{}
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
	for try := 1; ; try++ {
		_, err := o.set(syscall.F_SETLK, kind)
		if err != syscall.EAGAIN && err != syscall.EACCES {
			return err
		}
		other, err := o.set(syscall.F_GETLK, kind)
		if err != nil {
			return err
		}
		if other.Pid <= 0 && try < 1000 { // of another pid namespace
			time.Sleep(time.Millisecond)
			continue
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

// hands takes the sibling away, and the lock file, at any moment, until done is closed. Both
// files of one holder would be too much: so it waits, after each, until two others have come.
func hands(path string, lockFileToo bool, done <-chan struct{}) (taken int) {
	for {
		victim := path + ".flock"
		if lockFileToo && rand.IntN(2) == 0 {
			victim = path
		}
		if os.Remove(victim) == nil {
			taken++
		}
		for range 2 {
			before := nonceAt(path)
			for wait := time.Now().Add(time.Second); nonceAt(path) == before && time.Now().Before(wait); {
				select {
				case <-done:
					return taken
				case <-time.After(rand.N(2 * time.Millisecond)):
				}
			}
			if nonceAt(path) == before { // nobody comes, or readers follow one another
				break
			}
		}
	}
}

func nonceAt(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var claim lock.LockInfo
	_ = json.Unmarshal(data, &claim)
	return claim.Nonce
}

// TestHands: nobody is ever in there with a writer, whatever is taken away, and whoever is
// killed; nobody is stuck; and in the end the lock is had at once, and nothing is left.
func TestHands(t *testing.T) {
	for name, run := range map[string]struct {
		hands, lockFileToo, fuse bool
		remember                 time.Duration
	}{
		"no hand":                 {},
		"siblings":                {hands: true},
		"siblings and lock files": {hands: true, lockFileToo: true},
		"two ways":                {fuse: true},
		"two ways, and siblings":  {fuse: true, hands: true},
		"two ways, remembered":    {fuse: true, remember: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ways := []string{filepath.Join(dir, ".lock")}
			if run.fuse {
				ways = append(ways, filepath.Join(throughFUSE(t, dir, run.remember), ".lock"))
			}
			oracle := filepath.Join(t.TempDir(), "oracle")
			crowd := newCrowd(t, 6, func(i int) *exec.Cmd { return play(t, "scramble", ways[i%len(ways)], oracle) })
			done, taken := make(chan struct{}), make(chan int, 1)
			if run.hands {
				go func() { taken <- hands(ways[0], run.lockFileToo, done) }()
			} else {
				taken <- 0
			}
			kills := chaosKills(t)
			for range kills {
				time.Sleep(rand.N(8 * time.Millisecond)) // any instruction
				crowd.killOne()
			}
			// None may be stuck: each goes on, whoever it is.
			crowd.allGoOn()
			close(done)
			n := <-taken
			had, lost := crowd.end()
			if !run.lockFileToo && lost > 0 {
				t.Errorf("%d were told of a loss, and nobody took a lock file", lost)
			}
			t.Logf("%d acquisitions, %d kills, %d files taken away, %d told of the loss", had, kills, n, lost)
			held, err := lock.File{Path: ways[0], StaleAfter: -1}.AcquireWithin(t.Context(), time.Minute)
			if err != nil {
				t.Fatal("the lock afterwards: ", err)
			}
			if err := held.Release(); err != nil {
				t.Error(err)
			}
			for _, e := range namesIn(t, dir) {
				if e != ".lock.flock" && !(run.fuse && strings.HasPrefix(e, ".lock.reclaim.")) {
					t.Errorf("left behind: %s", e)
				}
			}
		})
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// TestHands_NothingOfOthers: while it is held by somebody else's program, which takes no
// kernel lock, nothing that hands do to the sibling has it taken away.
func TestHands_NothingOfOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".lock")
	claim := fmt.Sprintf(`{"pid":%d,"created_at":%q}`, os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	check(t, os.WriteFile(path, []byte(claim), 0o600))
	crowd := newCrowd(t, 4, func(int) *exec.Cmd { return play(t, "scramble", path, filepath.Join(dir, "oracle")) })
	for range 40 {
		time.Sleep(rand.N(8 * time.Millisecond))
		if err := os.Remove(path + ".flock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		crowd.killOne()
	}
	if had, _ := crowd.end(); had != 0 {
		t.Errorf("had %d times", had)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != claim {
		t.Errorf("its claim is %q, %v", got, err)
	}
}
