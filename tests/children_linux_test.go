package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

func init() { roles["agent"] = agent }

// agent takes a lock again and again, in one of several ways, and has children work under
// it, two at a time, until it is killed. Those inherit its role.
func agent(args []string) error {
	if args[0] == "work" {
		return work(args[1:])
	}
	how, path := args[0], args[1]
	for round := 0; ; round++ {
		attach, release := func(*exec.Cmd) error { return nil }, func() error { return nil }
		switch how {
		case "holdfast":
			held, err := lock.File{Path: path, Cmd: "agent"}.Acquire(context.Background())
			if err != nil {
				return err
			}
			attach, release = held.Attach, held.Release
		case "gofrs/flock":
			f := flock.New(path)
			if err := f.Lock(); err != nil {
				return err
			}
			release = f.Unlock
		case "locked": // by whoever has started us
		}
		generation := fmt.Sprintf("%d.%d", os.Getpid(), round)
		working, end, err := os.Pipe() // which is at its end when the last descendant is
		if err != nil {
			return err
		}
		for range 2 {
			c := exec.Command(os.Args[0], "work", path, generation, "1")
			c.Stdout, c.Stderr = end, os.Stderr
			if err := attach(c); err != nil {
				return err
			}
			if err := c.Start(); err != nil {
				return err
			}
			go c.Wait()
		}
		end.Close()
		if _, err := working.Read(make([]byte, 1)); err != io.EOF {
			return fmt.Errorf("waiting for the children: %w", err)
		}
		working.Close()
		if err := release(); err != nil {
			return err
		}
	}
}

// work is done for a generation, beside others of the same one, and has another child go on
// when it ends. The generation "held" is the holding that the process works under. Everybody first puts up a mark, and then looks: of two generations at work
// at once, one is bound to see the other.
func work(args []string) error {
	path, generation, further := args[0], args[1], args[2]
	if generation == "held" {
		var above []struct{ Nonce string }
		if err := json.Unmarshal([]byte(os.Getenv("HOLDFAST_HELD")), &above); err != nil {
			return err
		}
		generation = above[len(above)-1].Nonce
	}
	marks := path + ".marks"
	if err := os.MkdirAll(marks, 0o700); err != nil {
		return err
	}
	mark := filepath.Join(marks, fmt.Sprintf("%s-%d", generation, os.Getpid()))
	if err := os.Mkdir(mark, 0o700); err != nil {
		return err
	}
	look := func() error {
		entries, err := os.ReadDir(marks)
		if err != nil {
			return err
		}
		for _, e := range entries {
			of, pid, _ := strings.Cut(e.Name(), "-")
			if of == generation {
				continue
			}
			if _, err := os.Stat("/proc/" + pid); err != nil || isZombie(pid) {
				continue
			}
			if _, err := os.Stat(filepath.Join(marks, e.Name())); err == nil {
				return os.WriteFile(path+".overlap."+generation, []byte(e.Name()), 0o600)
			}
		}
		return nil
	}
	err := look()
	time.Sleep(rand.N(5 * time.Millisecond)) // the work
	if further != "0" {
		c := exec.Command(os.Args[0], "work", path, generation, "0") // inherits what we have
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		err = errors.Join(err, c.Start())
	}
	return errors.Join(err, look(), os.Remove(mark))
}

// generations kills agents at random moments, and returns how many of them saw the work of
// another generation, and what all have said. By then all have ended.
func generations(t *testing.T, how string, kills int) (overlaps int, said, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "agents.lock")
	ears, mouth, err := os.Pipe()
	check(t, err)
	defer ears.Close()
	all := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(ears)
		all <- string(text)
	}()
	launch := func() *exec.Cmd {
		c := play(t, "agent", how, path)
		switch how {
		case "tests/agent":
			agentOf(c, path)
		case "flock(1)":
			c = play(t, "agent", "locked", path)
			c.Path, c.Args = "/usr/bin/flock", append([]string{"flock", path, c.Path}, c.Args[1:]...)
		}
		c.Stderr = mouth
		check(t, c.Start())
		return c
	}
	var running []*exec.Cmd
	for range 3 {
		running = append(running, launch())
	}
	for range kills {
		time.Sleep(rand.N(20 * time.Millisecond)) // any instruction
		i := rand.IntN(len(running))
		killAgent(running[i])
		running[i] = launch()
	}
	for _, c := range running {
		killAgent(c)
	}
	mouth.Close()
	said = <-all
	seen := must(filepath.Glob(path + ".overlap.*"))(t)
	return len(seen), said, path
}

// killAgent kills an agent, and not its workers. That of flock(1) is its child.
func killAgent(c *exec.Cmd) {
	pid := strconv.Itoa(c.Process.Pid)
	children, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	c.Process.Kill()
	if filepath.Base(c.Path) == "flock" {
		for _, child := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				syscall.Kill(n, syscall.SIGKILL)
			}
		}
	}
	c.Wait()
}

// TestChildren_Killed: agents with children and grandchildren are killed at any moment.
// Nobody works beside the children of another generation, and the lock is free when the
// last one has ended. What other locks make of it is logged.
func TestChildren_Killed(t *testing.T) { // guards: S12
	kills := chaosKills(t)
	overlaps, said, path := generations(t, "holdfast", kills)
	that(t, overlaps == 0 && said == "", "%d times a generation worked beside another; said: %s", overlaps, said)
	if code, out := run(t, holdfast, "run", "--timeout", "1m", path, "--", "true"); code != 0 {
		t.Errorf("the lock afterwards: exit %d: %s", code, out)
	}
	t.Logf("holdfast: %d kills, %d overlaps", kills, overlaps)
	kills /= 3
	overlaps, _, _ = generations(t, "gofrs/flock", kills)
	t.Logf("gofrs/flock: %d kills, %d overlaps", kills, overlaps)
	if _, err := os.Stat("/usr/bin/flock"); err == nil {
		overlaps, _, _ = generations(t, "flock(1)", kills)
		t.Logf("flock(1): %d kills, %d overlaps", kills, overlaps)
	}
}

// TestChildren_InContainer: in a pid namespace the kernel does not tell the pid of a holder
// who has gone; the children who have the lock are named all the same.
func TestChildren_InContainer(t *testing.T) {
	inside := func(script string) *exec.Cmd {
		return exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, holdfast, filepath.Join(t.TempDir(), "a.lock"))
	}
	if out, err := inside("true").CombinedOutput(); err != nil {
		t.Skipf("needs unshare(1), and the right to use it, to make a pid namespace: %v: %s", err, out)
	}
	out, err := inside(`
		worker=$("$0" run --label job "$1" -- sh -c 'sleep 1000 >&- & echo $!')
		"$0" status "$1"
		kill -9 $worker
		"$0" run "$1" -- echo mine, after $worker`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	_, worker, _ := strings.Cut(lines[len(lines)-1], "mine, after ")
	if want := fmt.Sprintf(", job) has gone; its process %s (sleep) still has the lock", worker); worker == "" || !strings.Contains(string(out), want) {
		t.Errorf("%s\nwant %q", out, want)
	}
}

// TestChildren_FUSE: where the kernel is no proof, a command does not hold too. If proof is
// asked for, it is not run.
func TestChildren_FUSE(t *testing.T) {
	path := filepath.Join(throughFUSE(t, t.TempDir(), 0), "a.lock")
	if code, out := run(t, holdfast, "run", path, "--", "sh", "-c", "sleep 1000 >&- 2>&- & echo $!"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	} else if pid, err := strconv.Atoi(out); err != nil {
		t.Errorf("it said %q", out)
	} else {
		defer syscall.Kill(pid, syscall.SIGKILL)
	}
	if code, out := run(t, holdfast, "status", path); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, out := run(t, holdfast, "run", "--require-kernel-lock", path, "--", "true"); code != 1 || !strings.Contains(out, "no trustworthy kernel lock") {
		t.Errorf("exit code %d: %s; want none trustworthy", code, out)
	}
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

// chaosKillsVar says how many kills there are to be: a hundred, if it is not set.
const chaosKillsVar = "HOLDFAST_CHAOS_KILLS"

func chaosKills(t *testing.T) int {
	text := os.Getenv(chaosKillsVar)
	if text == "" {
		return testkit.Rounds(300, 3)
	}
	n, err := strconv.Atoi(text)
	check(t, err, chaosKillsVar)
	return n
}
