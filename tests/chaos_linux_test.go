package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

func init() { roles["churn"] = churn }

// churn acquires the lock at args[0] again and again, until it is killed. Under
// it, it raises a counter in two steps that only exclusion makes one, and puts up
// a mark that only one at a time can put up. It says "+" each time.
func churn(args []string) error {
	f := lock.File{Path: args[0], Cmd: "churn"}
	for {
		held, err := f.Acquire(context.Background())
		if err != nil {
			return err
		}
		if err := underLock(f.Path); err != nil {
			return err
		}
		if err := held.Release(); err != nil {
			return err
		}
		fmt.Println("+")
	}
}

// underLock does the work that must not be done by two at once. The mark is a
// symbolic link, made in one step, that names its maker; one that was
// left by a process that was killed is told from a rival's by that process
// having gone.
func underLock(path string) error {
	mark := path + ".mark"
	for {
		err := os.Symlink(strconv.Itoa(os.Getpid()), mark)
		if err == nil {
			break
		}
		owner, rerr := os.Readlink(mark)
		if !errors.Is(err, fs.ErrExist) || rerr != nil {
			return fmt.Errorf("mark: %w, %w", err, rerr)
		}
		if _, err := os.Stat("/proc/" + owner); err == nil && !isZombie(owner) {
			return fmt.Errorf("not alone: pid %s is at work too", owner)
		}
		if err := os.Remove(mark); err != nil {
			return fmt.Errorf("not alone: the mark of pid %s went away: %w", owner, err)
		}
	}
	counter := path + ".counter"
	text, err := os.ReadFile(counter)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n, _ := strconv.Atoi(string(text))
	// Renamed into place, so that a kill leaves the old or the new.
	if err := os.WriteFile(counter+".new", []byte(strconv.Itoa(n+1)), 0o600); err != nil {
		return err
	}
	if err := os.Rename(counter+".new", counter); err != nil {
		return err
	}
	return os.Remove(mark)
}

// isZombie: a process that was killed lets go of its lock shortly before it has
// gone, and stays visible until it is waited for.
func isZombie(pid string) bool {
	for range 1000 {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") || strings.Contains(string(stat), ") X ") {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// TestChaos: eight processes contend, one of them is killed every few
// milliseconds and replaced. Nobody is ever in there with another, no work that
// was reported done is lost, and in the end the lock is free without a hand.
func TestChaos(t *testing.T) {
	const procs, kills = 8, 200
	path := filepath.Join(t.TempDir(), ".lock")

	crowd := newCrowd(t, procs, func(int) *exec.Cmd { return play(t, "churn", path) })
	for range kills {
		time.Sleep(rand.N(10 * time.Millisecond)) // any instruction
		crowd.killOne()
	}
	had, _ := crowd.end()
	reported := int(had)

	text, err := os.ReadFile(path + ".counter")
	check(t, err)
	counted, err := strconv.Atoi(string(text))
	check(t, err)
	// Whoever was killed may have counted without having reported it.
	if counted < reported || counted > reported+kills+procs {
		t.Errorf("%d reported, %d counted; want no fewer, and at most %d more", reported, counted, kills+procs)
	}
	t.Logf("%d acquisitions, %d kills", counted, kills+procs)
	if code, out := run(t, holdfast, "run", "-timeout", "1m", path, "--", "true"); code != 0 {
		t.Errorf("the lock afterwards: exit %d: %s", code, out)
	}
}
