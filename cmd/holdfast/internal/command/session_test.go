//go:build unix || windows

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// sessions gives a test a lock.
func sessions(t *testing.T) (path string) {
	t.Helper()
	return filepath.Join(t.TempDir(), "a.lock")
}

// aSession is one that was begun.
type aSession struct {
	sessionReport
	t      *testing.T
	keeper platform.Process
}

// begin begins a session, which ends with the test.
func begin(t *testing.T, args ...string) *aSession {
	t.Helper()
	stdout, stderr := wantCode(t, exitOK, append([]string{"hold"}, args...)...)
	if stderr != "" {
		t.Errorf("it said: %s", stderr)
	}
	return reported(t, stdout)
}

func reported(t *testing.T, stdout string) *aSession {
	t.Helper()
	s := &aSession{t: t}
	testkit.Check(t, json.Unmarshal([]byte(stdout), &s.sessionReport))
	s.watch()
	return s
}

// watch looks after the keeper.
func (s *aSession) watch() {
	s.t.Helper()
	var err error
	s.keeper, err = platform.Identify(s.KeeperPID)
	testkit.Check(s.t, err)
	process, err := os.FindProcess(s.KeeperPID)
	testkit.Check(s.t, err)
	s.t.Cleanup(func() { process.Kill() })
}

// wantEnded: the session ends, if it has not yet. The next one has the lock, and nothing is
// left of it, the keeper least of all.
func (s *aSession) wantEnded() {
	s.t.Helper()
	wantCode(s.t, exitOK, append([]string{"run", "--timeout", patience.String(), s.Path, "--"}, role(s.t, "exit", "0")...)...)
	wantExit(s.t, s.keeper)
	wantFile(s.t, s.Path, false)
}

func (s *aSession) wantHeld() {
	s.t.Helper()
	stdout, _ := wantCode(s.t, exitHeld, "status", "--json", s.Path)
	wantText(s.t, stdout, `"holder":{"pid":`+strconv.Itoa(s.KeeperPID)+`,`, `"nonce":"`+s.Nonce+`"`)
}

func wantExit(t *testing.T, p platform.Process) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("pid %d ends", p.PID), func() bool {
		l := platform.Probe(p)
		return l == platform.Gone || l == platform.Replaced
	})
}

// anOwner is a process that lives until it is killed.
func anOwner(t *testing.T) *process {
	t.Helper()
	p := start(t, testCommand, "hold")
	p.expect("ready")
	return p
}

func (p *process) pid() string { return strconv.Itoa(p.cmd.Process.Pid) }

func (p *process) kill() {
	p.t.Helper()
	testkit.Check(p.t, p.cmd.Process.Kill())
	p.cmd.Wait()
}

// TestHold: the lock is held for the life of the owner, is told of as its session, and is
// free when the owner has been killed.
func TestHold(t *testing.T) {
	path := sessions(t)
	owner := anOwner(t)
	s := begin(t, "--owner", owner.pid(), path)
	if strconv.Itoa(s.OwnerPID) != owner.pid() || s.Path != path || s.Fence <= 0 || s.KeeperPID <= 0 {
		t.Errorf("it reports %+v", s.sessionReport)
	}
	s.wantHeld()
	session := "session of pid " + owner.pid()
	word, _ := shellWord(path)
	stdout, _ := wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, "pid "+strconv.Itoa(s.KeeperPID), session, "holdfast release "+word+" "+s.Nonce)
	stdout, _ = wantCode(t, exitHeld, "status", "--json", path)
	wantText(t, stdout, `"owner_pid":`+owner.pid()+",")
	stdout, _ = wantCode(t, exitOK, "list", filepath.Dir(path))
	wantText(t, stdout, session)
	_, stderr := wantCode(t, exitNotHad, "hold", "--timeout", "0", path)
	wantText(t, stderr, "no session was begun", session)
	owner.kill()
	s.wantEnded()
	if got, want := testkit.Names(t, filepath.Dir(path)), "a.lock.flock"; got != want {
		t.Errorf("left behind: %s; want only %s", got, want)
	}
}

// TestHold_DefaultOwner: without --owner it is the process that has started hold.
func TestHold_DefaultOwner(t *testing.T) {
	s := begin(t, sessions(t))
	if s.OwnerPID != os.Getpid() {
		t.Errorf("the owner is pid %d, want this process, %d", s.OwnerPID, os.Getpid())
	}
	wantCode(t, exitOK, "release", s.Path, s.Nonce)
	s.wantEnded()
}

// TestHold_Release: release ends this session and no other, and once. It tells one that has
// ended from one that never was, and how to end the one that there is.
func TestHold_Release(t *testing.T) {
	path := sessions(t)
	s := begin(t, path)
	word, _ := shellWord(path)
	for _, nonce := range []string{strings.Repeat("A", 26), "x"} {
		_, stderr := wantCode(t, exitEnded, "release", path, nonce)
		wantText(t, stderr, "no session "+nonce+" has this lock ("+path+": held): it has ended, or there never was one",
			"session of pid", "holdfast release "+word+" "+s.Nonce)
		wantNoText(t, stderr, "this session")
	}
	for _, nonce := range []string{"", "..", "a/b", s.Nonce + "\n", strings.Repeat("A", 65)} {
		_, stderr := wantCode(t, exitUsage, "release", path, nonce)
		wantText(t, stderr, "NONCE is what hold has printed")
	}
	other := begin(t, path+"2")
	wantCode(t, exitEnded, "release", path, other.Nonce)
	wantCode(t, exitUsage, "release", path)
	s.wantHeld()
	other.wantHeld()

	link := path + "-link"
	if runtime.GOOS == "windows" { // where not everybody may make links
		link = filepath.Dir(path)
	} else {
		testkit.Check(t, os.Symlink(filepath.Dir(path), link))
	}
	wantCode(t, exitOK, "release", filepath.Join(link, "a.lock"), s.Nonce)
	wantFile(t, path, false) // by now, and not soon
	wantCode(t, exitOK, "status", path)
	_, stderr := wantCode(t, exitEnded, "release", path, s.Nonce)
	wantText(t, stderr, "this session has ended ("+path+": free)")
	_, stderr = wantCode(t, exitEnded, "release", path, "BOGUS")
	wantText(t, stderr, "no session BOGUS has this lock ("+path+": free)")
	next := begin(t, path)
	_, stderr = wantCode(t, exitEnded, "release", path, s.Nonce)
	wantText(t, stderr, "no session "+s.Nonce+" has this lock ("+path+": held)", strconv.Itoa(next.KeeperPID))
	next.wantHeld()
	wantCode(t, exitOK, "release", path, next.Nonce)
	next.wantEnded()
	wantCode(t, exitOK, "release", path+"2", other.Nonce)
	other.wantEnded()
	wantExit(t, s.keeper)
}

// TestHold_End: the next holder learns what ended a session. Only a release counts as one.
func TestHold_End(t *testing.T) { // guards: S3
	for name, test := range map[string]struct {
		end      func(t *testing.T, s *aSession, owner *process)
		how      lock.End
		evidence evidence.Evidence // any, if that depends on the system
		any      bool
	}{
		"release": {func(t *testing.T, s *aSession, _ *process) {
			wantCode(t, exitOK, "release", s.Path, s.Nonce)
		}, lock.EndReleased, "", false},
		"owner killed": {func(t *testing.T, _ *aSession, owner *process) { owner.kill() }, lock.EndDied, evidence.OwnerEnded, false},
		"owner done":   {func(t *testing.T, _ *aSession, owner *process) { owner.finish() }, lock.EndDied, evidence.OwnerEnded, false},
		"keeper killed": {func(t *testing.T, s *aSession, _ *process) {
			keeper, err := os.FindProcess(s.KeeperPID)
			testkit.Check(t, err)
			testkit.Check(t, keeper.Kill())
		}, lock.EndDied, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			path := sessions(t)
			owner := anOwner(t)
			s := begin(t, "--owner", owner.pid(), path)
			test.end(t, s, owner)
			wantExit(t, s.keeper)
			wantEnd(t, s, test.how, test.evidence, test.any)
		})
	}
}

// wantEnd: the next holder is told how a session ended.
func wantEnd(t *testing.T, s *aSession, how lock.End, evidence evidence.Evidence, any bool) {
	t.Helper()
	stdout, _ := wantCode(t, exitOK, append([]string{"run", s.Path, "--"}, role(t, "predecessor")...)...)
	var p lock.Predecessor
	testkit.Check(t, json.Unmarshal([]byte(stdout), &p))
	if p.Info.Nonce != s.Nonce || p.How != how || !any && (p.Evidence != evidence || p.Ended.IsZero()) {
		t.Errorf("the next one is told %s, want %s, %q", stdout, how, evidence)
	}
}

// TestHold_OwnerGone: nothing is taken for an owner who has gone, nor for what is none.
func TestHold_OwnerGone(t *testing.T) {
	path := sessions(t)
	owner := anOwner(t)
	owner.kill()
	_, stderr := wantCode(t, exitError, "hold", "--owner", owner.pid(), path)
	wantText(t, stderr, "pid "+owner.pid(), "has ended already", "no session was begun")
	for _, args := range [][]string{{"--owner", "0"}, {"--owner", "-1"}, {"-ttl", "5m"}} {
		wantCode(t, exitUsage, append(append([]string{"hold"}, args...), path)...)
	}
	if left := testkit.Names(t, filepath.Dir(path)); left != "" {
		t.Error("there is ", left)
	}
}

// TestHold_OwnerEndsWaiting: a wait for an owner who has gone is given up.
func TestHold_OwnerEndsWaiting(t *testing.T) {
	path := sessions(t)
	holder := holdLock(t, path)
	owner := anOwner(t)
	p := start(t, "hold", "--owner", owner.pid(), path)
	p.await("waiting for " + path)
	owner.kill()
	code, stdout, stderr := p.finish()
	if code != exitError || stdout != "" {
		t.Errorf("exit code %d, and it printed %s", code, stdout)
	}
	wantText(t, stderr, "the owner, pid "+owner.pid()+", has ended already", "no session was begun")
	holder.finish()
	wantCode(t, exitOK, "status", path)
}

// TestHold_NotBegun: without a session hold never succeeds, however its keeper ended.
func TestHold_NotBegun(t *testing.T) {
	for _, test := range []struct {
		role []string
		want int
	}{
		{role(t, "exit", "0"), exitError},
		{role(t, "exit", "75"), exitNotHad},
		{role(t, "exit", "1"), exitError},
		{role(t, "killself"), exitError},
	} {
		cmd := child(t, test.role[1:]...)
		testkit.Check(t, cmd.Start())
		var stderr strings.Builder
		a := &app{stderr: &stderr}
		code := a.notBegun(&keeper{cmd: cmd}, nil)
		if runtime.GOOS == "windows" && code == exitOK || runtime.GOOS != "windows" && code != test.want {
			t.Errorf("a keeper that ends by %q: exit code %d, want %d", test.role[2:], code, test.want)
		}
		if silent := code != exitError || test.role[len(test.role)-1] == "1"; !silent {
			wantText(t, stderr.String(), "the session has ended already")
		}
	}
}
