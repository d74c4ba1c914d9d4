package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// flockC is a program in C that takes part by flock(2).
func flockC(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "flock")
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc, to have a program in C take part: ", err)
	}
	if out, err := exec.Command("gcc", "-o", binary, filepath.Join("testdata", "flock.c")).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return binary
}

func init() { roles["adder"] = adder }

// adder adds one to the number in the file args[1] as often as args[2] says, each time under
// the lock args[0].
func adder(args []string) error {
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	for range count {
		err := lock.File{Path: args[0]}.Do(context.Background(), func(context.Context, *lock.FileHold) error {
			text, err := os.ReadFile(args[1])
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				return err
			}
			return os.WriteFile(args[1], []byte(strconv.Itoa(n+1)+"\n"), 0o600)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// TestFlockC: programs in C that lock the sibling, or their own lock file, and ours exclude
// each other: of what they add to one number nothing is lost. Each waits for the other's
// living, and goes on after their dead.
func TestFlockC(t *testing.T) { // guards: O4
	const each = 60
	binary := flockC(t)
	for _, way := range []string{"queue", "own"} {
		t.Run(way, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			at, counter := path, path+".count"
			if way == "queue" {
				at += ".flock"
			}
			check(t, os.WriteFile(counter, []byte("0\n"), 0o600))
			var all sync.WaitGroup
			for range 2 {
				theirs := background(t, exec.Command(binary, way, at, strconv.Itoa(each), counter))
				ours := background(t, play(t, "adder", path, counter, strconv.Itoa(each)))
				for _, cmd := range []*exec.Cmd{theirs, ours} {
					all.Go(func() {
						if err := cmd.Wait(); err != nil {
							t.Errorf("%s: %v", filepath.Base(cmd.Path), err)
						}
					})
				}
			}
			all.Wait()
			if text, err := os.ReadFile(counter); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(4*each) {
				t.Errorf("the number is %s, %v; want %d", text, err, 4*each)
			}

			theirs := testkit.StartCommand(t, exec.Command(binary, way, at))
			theirs.Expect("held")
			code, said := run(t, holdfast, "run", "--try", path, "--", "true")
			that(t, code == 75, "beside theirs: exit code %d, %s", code, said)
			if _, said = run(t, holdfast, "status", path); !strings.Contains(said, strconv.Itoa(theirs.Cmd.Process.Pid)) {
				t.Errorf("theirs is not named: %s", said)
			}
			theirs.Kill()
			if code, said := run(t, holdfast, "run", "--timeout", "1m", path, "--", "true"); code != 0 {
				t.Errorf("after theirs was killed: exit code %d, %s", code, said)
			}

			if way == "queue" { // by O_EXCL alone nobody sees that we have died
				ours := testkit.Start(t, "keeper", path)
				ours.Expect("held")
				theirs := testkit.StartCommand(t, exec.Command(binary, way, at))
				ours.Kill()
				theirs.Expect("held")
			}
		})
	}
}

func init() { roles["keeper"] = keeper }

// keeper has the lock args[0] until it is killed.
func keeper(args []string) error {
	return lock.File{Path: args[0]}.Do(context.Background(), func(context.Context, *lock.FileHold) error {
		os.Stdout.WriteString("held\n")
		select {}
	})
}
