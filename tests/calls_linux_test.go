package tests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/dispatch"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

func init() { roles["strained"], roles["cycles"] = strained, cycles }

// strained does what args[1] says in the folder args[0], on one thread, says what came of it,
// and lives on.
func strained(args []string) error {
	runtime.LockOSThread()
	err := strainedOps[args[1]](context.Background(), args[0])
	switch {
	case errors.As(err, new(*lock.LockedError)):
		fmt.Println("locked:", strings.ReplaceAll(err.Error(), "\n", "; "))
	case err != nil && !errors.Is(err, syscall.EIO):
		fmt.Println("error:", strings.ReplaceAll(err.Error(), "\n", "; "))
	case err != nil:
		fmt.Println("EIO")
	default:
		fmt.Println("done")
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
	}
	return nil
}

var strainedOps = map[string]func(ctx context.Context, dir string) error{
	"acquire": func(ctx context.Context, dir string) error {
		return andRelease(lock.File{Path: filepath.Join(dir, ".lock")}.Acquire(ctx))
	},
	"try": func(ctx context.Context, dir string) error {
		return andRelease(lock.File{Path: filepath.Join(dir, ".lock"), Tidy: true}.TryAcquire(ctx))
	},
	"shared": func(ctx context.Context, dir string) error {
		return andRelease(lock.File{Path: filepath.Join(dir, ".lock"), Shared: true}.Acquire(ctx))
	},
	"take over": func(ctx context.Context, dir string) error {
		return andRelease(lock.File{Path: filepath.Join(dir, "dead")}.Acquire(ctx))
	},
	"update": func(ctx context.Context, dir string) error {
		return lock.Update(ctx, filepath.Join(dir, "data"), func([]byte) ([]byte, error) { return []byte("new"), nil })
	},
	"append": func(ctx context.Context, dir string) error {
		_, err := ledger.Ledger{Dir: dir}.Append(ctx, []byte(`{"n":1}`))
		return err
	},
	"dispatch": func(ctx context.Context, dir string) error {
		c, err := dispatch.Locks{Dir: dir}.Acquire(ctx, "id")
		if err == nil {
			_, err = c.Release()
		}
		return err
	},
}

func andRelease(held *lock.FileHold, err error) error {
	if err != nil {
		return err
	}
	return held.Release()
}

// TestCalls: on a filesystem that is trusted, too, a system call that fails, whichever it is, is
// told at once, or makes no difference; and nothing is kept by a process that lives on.
func TestCalls(t *testing.T) { // guards: H5
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace, to have system calls fail")
	}
	oracle := filepath.Join(t.TempDir(), "oracle")
	other := testkit.Start(t, "rival", oracle)
	after := map[string]string{"update": "update data", "append": "append .", "dispatch": "dispatch .", "take over": "lock dead"}
	for what := range strainedOps {
		for _, call := range []string{"flock", "pwrite64", "?unlink,?unlinkat", "?rename,?renameat,renameat2", "statx", "fsync"} {
			if !testkit.Sample(3) {
				continue
			}
			t.Run(what+", "+call, func(t *testing.T) {
				for n, fired := 1, true; fired; n++ {
					if n > 100 {
						t.Fatal("never passes")
					}
					dir := t.TempDir()
					check(t, os.WriteFile(filepath.Join(dir, "data"), []byte("old"), 0o600))
					deadClaim(t, filepath.Join(dir, "dead"), oracle)
					log := filepath.Join(t.TempDir(), "log")
					child := testkit.Command(t, "strained", dir, what)
					cmd := exec.Command(strace, append([]string{"-f", "-qq", "-o", log, "-e", "trace=" + call,
						"-e", fmt.Sprintf("inject=%s:error=EIO:when=%d", call, n)}, child.Args...)...)
					cmd.Env = child.Env
					c := testkit.StartCommand(t, cmd)
					said, ok := c.Line()
					if !ok {
						t.Skip("needs to be allowed to trace")
					}
					that(t, said == "done" || said == "EIO", "it says: %s", said)
					calls := must(os.ReadFile(log))(t)
					fired = strings.Contains(string(calls), "INJECTED")
					order, path, _ := strings.Cut(after[what], " ")
					if order == "" {
						order, path = "lock", ".lock"
					}
					if answer := other.Say(order + " " + filepath.Join(dir, path)); !strings.HasPrefix(answer, order) {
						t.Errorf("afterwards: %s", answer)
					}
					if t.Failed() {
						t.Fatalf("so with number %d: %s; there are %q\n%s", n, said, namesIn(t, dir), calls)
					}
					check(t, c.End())
				}
			})
		}
	}
}

// cycles acquires and releases three times, on one thread, and calls getppid(2) behind each; then
// it looks at that lock, which is free, and at one that somebody has.
func cycles(args []string) error {
	runtime.LockOSThread()
	f := lock.File{Path: args[0]}
	for range 3 {
		if err := andRelease(f.Acquire(context.Background())); err != nil {
			return err
		}
		syscall.Getppid()
	}
	for path, want := range map[string]evidence.State{args[0]: evidence.Free, args[1]: evidence.Held} {
		if s, err := (lock.File{Path: path}).Inspect(context.Background()); err != nil || s.State != want {
			return fmt.Errorf("%s is %v, %v", path, s, err)
		}
	}
	return nil
}

// TestCycleCalls: an acquisition and a release of a free lock make these system calls on files and
// descriptors, and no others. (Calls of other kinds are not traced: geteuid(2) is one.) What a note, a fence, a dead holder or a child needs is not among them. A call that is
// added here is added for everybody: its reason belongs behind it. A look at a free lock, or at
// one whose claim names its holder, does not read the kernel's list, as all that lock on this
// machine would wait for that.
func TestCycleCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace, to see system calls")
	}
	log := filepath.Join(t.TempDir(), "log")
	dir := mounted(t, "tmpfs", "size=1m")
	held := must(lock.File{Path: filepath.Join(dir, "held")}.TryAcquire(t.Context()))(t)
	defer held.Release()
	child := testkit.Command(t, "cycles", filepath.Join(dir, ".lock"), held.Path())
	cmd := exec.Command(strace, append([]string{"-f", "-qq", "-o", log, "-e", "trace=%file,%desc,getppid", "-e", "signal=none"}, child.Args...)...)
	cmd.Env = child.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("needs to be allowed to trace: %v, %s", err, out)
	}
	text, err := os.ReadFile(log)
	check(t, err)
	rounds := strings.Split(string(text), "getppid(")
	if len(rounds) != 4 {
		t.Fatalf("it was not three rounds:\n%s", text)
	}
	var calls []string
	for line := range strings.Lines(rounds[2][strings.Index(rounds[2], "\n")+1:]) {
		if _, call, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Contains(call, "(") {
			name, _, _ := strings.Cut(strings.TrimSpace(call), "(")
			calls = append(calls, name)
		}
	}
	want := []string{
		"statx",    // of which mount is the folder? that says which filesystem
		"openat",   // the sibling
		"fcntl",    // its turnstile
		"flock",    // its lock
		"statx",    // it has not been removed
		"openat",   // the lock file, made
		"flock",    // its own lock
		"statx",    // rule B: which file is it,
		"statx",    // and which is at the path?
		"pwrite64", // the claim
		"statx",    // no dead reclaimer's marker is there
		"statx",    // rule B, at release
		"unlinkat", // the lock file
		"flock",    // its own lock is dropped,
		"flock",    // and the sibling's
		"close", "close",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("the calls are\n%q, want\n%q", calls, want)
	}
	if looks := rounds[3]; strings.Contains(looks, "/proc/locks") || !strings.Contains(looks, held.Path()) {
		t.Errorf("to look took\n%s", looks)
	}
}
