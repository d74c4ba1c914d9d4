package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

func init() {
	// mortal dies of what a keeper is asked by, as programs do that are not Go's.
	roles["mortal"] = func([]string) int {
		asked := releaseRequests()
		fmt.Println("ready")
		<-asked
		return endedByItself
	}
	// owned holds a lock as a library program may, for an owner, and dies so, too.
	roles["owned"] = func(args []string) int {
		asked := releaseRequests()
		held, err := lock.File{Path: args[0], OwnerPID: os.Getppid()}.TryAcquire(context.Background())
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(held.Info().Nonce)
		<-asked
		return endedByItself
	}
}

// forge writes a claim over a lock file by hand, and has its kernel lock, as an attacker can.
func forge(t *testing.T, path string, claim evidence.Claim) {
	t.Helper()
	line, err := json.Marshal(claim)
	testkit.Check(t, err)
	text := strings.TrimSuffix(string(line), "}") + `,"holdfast":1,"released":false}` + "\n"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	testkit.Check(t, err)
	t.Cleanup(func() { f.Close() })
	testkit.Check(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	_, err = f.WriteString(text)
	testkit.Check(t, err)
}

// claimOf is one that names a process, as a session's keeper.
func claimOf(t *testing.T, p platform.Process) evidence.Claim {
	t.Helper()
	host := platform.ThisHost()
	return evidence.Claim{PID: p.PID, CreatedAt: time.Now(), OwnerPID: os.Getpid(), Nonce: "N0NCE", Hostname: host.Name, BootID: host.BootID,
		PIDNamespace: p.PIDNamespace, TimeNamespace: p.TimeNamespace, Start: p.Start, PIDFD: p.PIDFD}
}

// TestRelease_NoKeeper: nobody is sent a signal but the keeper of that very session.
func TestRelease_NoKeeper(t *testing.T) { // guards: S3
	bystander := start(t, testCommand, "mortal")
	bystander.expect("ready")
	process, err := platform.Identify(bystander.cmd.Process.Pid)
	testkit.Check(t, err)
	keeper := begin(t, sessions(t)) // of another lock
	refused := func(t *testing.T, path, nonce string, code int, says string) {
		t.Helper()
		_, stderr := wantCode(t, code, "release", path, nonce)
		wantText(t, stderr, says)
	}
	for name, test := range map[string]struct {
		change func(*evidence.Claim)
		code   int
		says   string
	}{
		"no session":  {func(c *evidence.Claim) { c.OwnerPID = 0 }, exitError, "has the lock for itself"},
		"no keeper":   {func(c *evidence.Claim) {}, exitError, "is no keeper that"},
		"other nonce": {func(c *evidence.Claim) { c.Nonce = "OTHER" }, exitEnded, "no session N0NCE has this lock"},
		"other boot":  {func(c *evidence.Claim) { c.BootID = "b" }, exitError, "is on another host"},
		"began later": {func(c *evidence.Claim) {
			*c = claimOf(t, keeper.keeper)
			c.Start, c.PIDFD = c.Start-1, 0
		}, exitEnded, "no session N0NCE has this lock"},
		"has that pid by now": {func(c *evidence.Claim) {
			*c = claimOf(t, keeper.keeper)
			c.Start, c.PIDFD = c.Start-1, c.PIDFD+1
		}, exitEnded, "no session N0NCE has this lock"},
	} {
		t.Run(name, func(t *testing.T) {
			path := sessions(t)
			claim := claimOf(t, process)
			test.change(&claim)
			forge(t, path, claim)
			refused(t, path, "N0NCE", test.code, test.says)
		})
	}
	t.Run("other namespace", func(t *testing.T) {
		claim := claimOf(t, keeper.keeper)
		claim.PIDNamespace++
		if _, err := findKeeper(t.Context(), lock.File{Path: keeper.Path}, &claim); err == nil || !strings.Contains(err.Error(), "can't be reached from this pid namespace") {
			t.Error(err)
		}
	})
	t.Run("run", func(t *testing.T) {
		path := sessions(t)
		holder := holdLock(t, path)
		status, err := lock.File{Path: path}.Inspect(t.Context())
		testkit.Check(t, err)
		refused(t, path, status.Info.Nonce, exitError, "has the lock for itself")
		if code, _, stderr := holder.finish(); code != exitOK {
			t.Errorf("the holder ended with %d: %s", code, stderr)
		}
	})
	t.Run("library", func(t *testing.T) {
		path := sessions(t)
		holder := start(t, testCommand, "owned", path)
		if !holder.lines.Scan() {
			t.Fatal(holder.output())
		}
		refused(t, path, holder.lines.Text(), exitError, "is no keeper that")
		if status, err := (lock.File{Path: path}).Inspect(t.Context()); err != nil || status.State != evidence.Held {
			t.Errorf("it is %+v (%v)", status, err)
		}
	})
	if platform.Probe(process) != platform.Alive || platform.Probe(keeper.keeper) != platform.Alive {
		t.Error("a process was ended that has nothing to do with the session")
	}
	keeper.wantHeld()
}

// TestRelease_Stopped: a keeper that is stopped does not release, which is said, and does so
// when it goes on.
func TestRelease_Stopped(t *testing.T) {
	s := begin(t, sessions(t))
	testkit.Check(t, syscall.Kill(s.KeeperPID, syscall.SIGSTOP))
	testkit.Eventually(t, "none of its threads runs", func() bool { // else one could take the next signal
		threads, err := filepath.Glob("/proc/" + strconv.Itoa(s.KeeperPID) + "/task/*/status")
		testkit.Check(t, err)
		return !slices.ContainsFunc(threads, func(thread string) bool {
			text, err := os.ReadFile(thread)
			return err != nil || !strings.Contains(string(text), "\nState:\tT")
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stderr bytes.Buffer
	a := &app{stdout: &stderr, stderr: &stderr}
	ended := make(chan int, 1)
	go func() { ended <- a.endSession(ctx, lock.File{Path: s.Path}, s.Nonce) }()
	testkit.Eventually(t, "the keeper is asked", func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(s.KeeperPID) + "/status")
		testkit.Check(t, err)
		_, pending, _ := strings.Cut(string(text), "\nShdPnd:\t")
		pending, _, _ = strings.Cut(pending, "\n")
		signals, err := strconv.ParseUint(pending, 16, 64)
		return err == nil && signals>>(releaseSignal-1)&1 == 1
	})
	cancel()
	if code := <-ended; code != exitError {
		t.Errorf("exit code %d", code)
	}
	wantText(t, stderr.String(), "has not released the lock yet; it may be stopped")
	testkit.Check(t, syscall.Kill(s.KeeperPID, syscall.SIGCONT))
	wantExit(t, s.keeper)
	wantEnd(t, s, lock.EndReleased, "", false)
}

// TestRelease_Gone: a keeper that ends between the look at its claim and the request is no
// reason to ask another process.
func TestRelease_Gone(t *testing.T) {
	s := begin(t, sessions(t))
	status, err := lock.File{Path: s.Path}.Inspect(t.Context())
	testkit.Check(t, err)
	testkit.Check(t, syscall.Kill(s.KeeperPID, syscall.SIGKILL))
	wantExit(t, s.keeper)
	if _, err := findKeeper(t.Context(), lock.File{Path: s.Path}, status.Info); !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	_, stderr := wantCode(t, exitEnded, "release", s.Path, s.Nonce)
	wantText(t, stderr, "this session has ended", "dead")
}

// TestRelease_KeeperDies: a keeper that dies of the request has not released the lock, which is
// said.
func TestRelease_KeeperDies(t *testing.T) {
	path := sessions(t)
	cmd := child(t, keeperName)
	cmd.Env = append(cmd.Env, falseKeeperVar+"="+path)
	keeper := startCommand(t, cmd)
	if !keeper.lines.Scan() {
		t.Fatal(keeper.output())
	}
	_, stderr := wantCode(t, exitError, "release", path, keeper.lines.Text())
	wantText(t, stderr, "the keeper has ended, and its lock file is still there", "dead")
}
