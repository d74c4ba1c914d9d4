package windows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"golang.org/x/sys/windows"
)

// exeVar names the holdfast.exe that is tested.
const exeVar = "HOLDFAST_EXE"

func TestMain(m *testing.M) { testkit.Main(m, play) }

// play is what a command under the lock, or an owner of a session, does.
func play(role string, args []string) {
	switch role {
	case "alone": // works for a moment, and says if somebody else does
		if err := os.Mkdir(args[0], 0o700); err != nil {
			fmt.Println("not alone:", err)
			os.Exit(1)
		}
		fmt.Println(os.Getenv("HOLDFAST_FENCE"))
		if err := os.Remove(args[0]); err != nil {
			fmt.Println("not alone:", err)
			os.Exit(1)
		}
	case "stay": // until its input ends
		fmt.Println(os.Getpid(), os.Getenv("HOLDFAST_FENCE"))
		io.Copy(io.Discard, os.Stdin)
	}
}

// holdfast prepares the command. What it runs plays a role.
func holdfast(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	exe := os.Getenv(exeVar)
	if exe == "" {
		t.Skip("needs " + exeVar + ", the command that is tested")
	}
	cmd := testkit.Command(t, role)
	cmd.Path, cmd.Args = exe, append([]string{exe}, args...)
	return cmd
}

// under is the command line by which holdfast runs this program.
func under(t *testing.T, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	testkit.Check(t, err)
	return append([]string{"--", self}, args...)
}

// run runs the command to its end.
func run(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := holdfast(t, "alone", args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Fatalf("holdfast %q: exit code %d, want %d\n%s%s", args, code, want, out.String(), said.String())
	}
	return out.String(), said.String()
}

// stay has a holdfast hold a lock, until its command's input ends.
func stay(t *testing.T, path string) (c *testkit.Child, pid string, fence int64) {
	t.Helper()
	c = testkit.StartCommand(t, holdfast(t, "stay", append([]string{"run", "--label", "a holder", path}, under(t)...)...))
	said := strings.Fields(c.Answer())
	if len(said) != 2 {
		t.Fatalf("it said %q", said)
	}
	fence, err := strconv.ParseInt(said[1], 10, 64)
	testkit.Check(t, err)
	return c, said[0], fence
}

func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// TestExclusion: of commands that run under one lock there is one at a time, each with a
// larger fence.
func TestExclusion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	inside := path + ".inside"
	var runs sync.WaitGroup
	for range 2 {
		runs.Go(func() {
			last := int64(0)
			for range 5 {
				cmd := holdfast(t, "alone", append([]string{"run", path}, under(t, inside)...)...)
				out, err := cmd.Output()
				fence, perr := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
				if err != nil || perr != nil || fence <= last {
					t.Errorf("%v, after fence %d it said %s", err, last, out)
				}
				last = fence
			}
		})
	}
	runs.Wait()
}

// TestHeld: who is refused is told by whom, and everybody can read the claim.
func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	holder, _, _ := stay(t, path)
	pid := strconv.Itoa(holder.Cmd.Process.Pid)
	_, stderr := run(t, 75, append([]string{"run", "--timeout", "0", path}, under(t, path+".inside")...)...)
	want(t, stderr, "pid "+pid, "a holder")
	text, err := os.ReadFile(path)
	testkit.Check(t, err)
	var claim struct {
		PID int
		Cmd string
	}
	testkit.Check(t, json.Unmarshal(text, &claim))
	if strconv.Itoa(claim.PID) != pid || claim.Cmd != "a holder" {
		t.Errorf("the claim is %s", text)
	}
	stdout, _ := run(t, 3, "status", path)
	want(t, stdout, "held", "pid "+pid, "kernel lock held")
	testkit.Check(t, holder.End())
	stdout, _ = run(t, 0, "status", path)
	want(t, stdout, "free")
}

// TestKilled: a holder that was killed is taken over, with a larger fence.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	holder, command, fence := stay(t, path)
	holder.Kill() // its command goes on: on Windows nothing ends it
	stdout, _ := run(t, 4, "status", path)
	want(t, stdout, "dead", "kernel lock", "pid "+strconv.Itoa(holder.Cmd.Process.Pid))
	next, _, later := stay(t, path)
	if later <= fence {
		t.Errorf("fence %d after %d", later, fence)
	}
	testkit.Check(t, next.End())
	pid, err := strconv.Atoi(command)
	testkit.Check(t, err)
	if left, err := os.FindProcess(pid); err == nil {
		left.Kill()
	}
}

// TestOpen: somebody who reads the lock file keeps nobody from the lock, or only as long as
// the system keeps the name of a removed file that is open.
func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	holder, _, _ := stay(t, path)
	name, err := windows.UTF16PtrFromString(path)
	testkit.Check(t, err)
	reader, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, 0, 0)
	testkit.Check(t, err)
	closed := sync.OnceFunc(func() { windows.CloseHandle(reader) })
	defer closed()
	testkit.Check(t, holder.End())
	cmd := holdfast(t, "alone", append([]string{"run", path}, under(t, path+".inside")...)...)
	cmd.Stderr = nil
	said, err := cmd.StderrPipe()
	testkit.Check(t, err)
	testkit.Check(t, cmd.Start())
	// It waits, and says so, or ends.
	_, _ = bufio.NewReader(said).ReadString('\n')
	closed()
	io.Copy(io.Discard, said)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left := testkit.Names(t, filepath.Dir(path)); left != "a.lock.flock" {
		t.Errorf("left behind: %s", left)
	}
}

// session is what hold prints.
type session struct {
	Nonce     string
	Fence     int64
	KeeperPID int `json:"keeper_pid"`
	OwnerPID  int `json:"owner_pid"`
}

func hold(t *testing.T, path string, args ...string) (s session) {
	t.Helper()
	stdout, _ := run(t, 0, append(append([]string{"hold"}, args...), path)...)
	testkit.Check(t, json.Unmarshal([]byte(stdout), &s))
	return s
}

// owner is a process for whose life a lock is held.
func owner(t *testing.T) (c *testkit.Child, pid string) {
	t.Helper()
	c = testkit.Start(t, "stay")
	c.Answer()
	return c, strconv.Itoa(c.Cmd.Process.Pid)
}

// nextOne has the lock when the session has ended, however long that takes.
func nextOne(t *testing.T, path string) {
	t.Helper()
	run(t, 0, append([]string{"run", path}, under(t, path+".inside")...)...)
}

// TestSession: a session lasts until it is released, its owner is killed, or its keeper is.
func TestSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	first, pid := owner(t)
	s := hold(t, path, "--owner", pid)
	stdout, _ := run(t, 3, "status", path)
	want(t, stdout, "pid "+strconv.Itoa(s.KeeperPID), "session of pid "+pid)
	run(t, 4, "release", path, "BOGUS")
	run(t, 0, "release", path, s.Nonce)
	run(t, 0, "status", path)
	run(t, 4, "release", path, s.Nonce)

	s = hold(t, path, "--owner", pid)
	first.Kill()
	nextOne(t, path)
	run(t, 4, "release", path, s.Nonce)

	second, pid := owner(t)
	s = hold(t, path, "--owner", pid)
	keeper, err := os.FindProcess(s.KeeperPID)
	testkit.Check(t, err)
	testkit.Check(t, keeper.Kill())
	nextOne(t, path)
	run(t, 4, "release", path, s.Nonce)
	testkit.Check(t, second.End())
}
