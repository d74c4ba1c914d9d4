package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

func init() { roles["hold"] = hold }

// hold takes the lock at args[0], says so, and keeps it.
func hold(args []string) error {
	held, err := lock.File{Path: args[0], Cmd: "container"}.TryAcquire(context.Background())
	if err != nil {
		fmt.Println("error:", err)
		return nil
	}
	fmt.Println("held by pid", held.Info().PID)
	time.Sleep(time.Hour)
	return nil
}

// TestContainersBothPID1: in two containers that share a folder, each holder is
// pid 1. (By pid alone the second sees itself alive in the first's claim, or sees
// the first's claim as its own.)
func TestContainersBothPID1(t *testing.T) { // guards: E8
	testkit.NeedsRoot(t, "make pid namespaces")
	path := filepath.Join(t.TempDir(), ".lock")
	first, said := container(t, path)
	if said != "held by pid 1" {
		t.Fatalf("first container: %s", said)
	}
	if _, said := container(t, path); said == "held by pid 1" {
		t.Fatal("second container holds the lock as well")
	}
	if code, out := run(t, holdfast, "status", path); code != 3 {
		t.Errorf("status from outside: exit %d, want 3: %s", code, out)
	}

	first.Kill()
	// Now pid 1 of another container is alive, and so is ours; neither is it.
	if code, out := run(t, holdfast, "status", path); code != 4 {
		t.Errorf("status after the holder's death: exit %d, want 4: %s", code, out)
	}
	if _, said := container(t, path); said != "held by pid 1" {
		t.Errorf("third container, after the first was killed: %s", said)
	}
}

// TestContainerOutlivesSibling: a holder in another container can't be probed from here,
// least of all if it has no /proc to say who it is. Its lock file answers for it, with the
// sibling or without, and tells when it has died.
func TestContainerOutlivesSibling(t *testing.T) { // guards: A2
	testkit.NeedsRoot(t, "make pid namespaces")
	for name, start := range map[string]func(*testing.T, string) (*testkit.Child, string){"container": container, "without /proc": sandbox} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), ".lock")
			holder, said := start(t, path)
			if said != "held by pid 1" {
				t.Fatal(said)
			}
			check(t, os.Remove(path+".flock"))
			f := lock.File{Path: path, StaleAfter: time.Nanosecond}
			held, err := f.TryAcquire(t.Context())
			if err == nil {
				t.Fatal("a second holder got in: ", held.Release())
			}
			if code, out := run(t, holdfast, "status", path); code != 3 {
				t.Errorf("status from outside: exit %d, want 3: %s", code, out)
			}
			holder.Kill()
			held, err = f.TryAcquire(t.Context())
			check(t, err, "after its death")
			noErr(t, held.Release())
		})
	}
}

// TestContainerTakesOver: nor can a holder outside be probed from within; and when it has
// died, it is replaced.
func TestContainerTakesOver(t *testing.T) {
	testkit.NeedsRoot(t, "make pid namespaces")
	path := filepath.Join(t.TempDir(), ".lock")
	outside := testkit.Start(t, "hold", path)
	if said := outside.Answer(); !strings.HasPrefix(said, "held by pid ") {
		t.Fatal(said)
	}
	check(t, os.Remove(path+".flock"))
	for _, start := range []func(*testing.T, string) (*testkit.Child, string){container, sandbox} {
		if _, said := start(t, path); said == "held by pid 1" {
			t.Fatal("a second holder got in")
		}
	}
	outside.Kill()
	if _, said := sandbox(t, path); said != "held by pid 1" {
		t.Error(said)
	}
}

// container starts a holder as pid 1 of a pid namespace with its own /proc, and
// returns what it says first.
func container(t *testing.T, path string) (*testkit.Child, string) {
	return contain(t, "mount -t proc proc /proc", path)
}

// sandbox is a container whose /proc is empty.
func sandbox(t *testing.T, path string) (*testkit.Child, string) {
	return contain(t, "mount -t tmpfs none /proc", path)
}

func contain(t *testing.T, mount, path string) (*testkit.Child, string) {
	t.Helper()
	holder := testkit.Command(t, "hold", path)
	cmd := exec.Command("sh", append([]string{"-c", mount + ` && exec "$0" "$1"`}, holder.Args...)...)
	cmd.Env, cmd.Stderr = holder.Env, holder.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	c := testkit.StartCommand(t, cmd)
	return c, c.Answer()
}
