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
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

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
	wantCode(s.t, exitOK, append([]string{"run", "-timeout", patience.String(), s.Path, "--"}, role(s.t, "exit", "0")...)...)
	wantExit(s.t, s.keeper)
	wantFile(s.t, s.Path, false)
	wantUnreachable(s.t, s.Nonce)
}

func (s *aSession) wantHeld() {
	s.t.Helper()
	stdout, _ := wantCode(s.t, exitHeld, "status", "-json", s.Path)
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
	s := begin(t, "-owner", owner.pid(), path)
	if strconv.Itoa(s.OwnerPID) != owner.pid() || s.Path != path || s.Fence <= 0 || s.KeeperPID <= 0 {
		t.Errorf("it reports %+v", s.sessionReport)
	}
	s.wantHeld()
	session := "session of pid " + owner.pid()
	word, _ := shellWord(path)
	stdout, _ := wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, "pid "+strconv.Itoa(s.KeeperPID), session, "holdfast release "+word+" "+s.Nonce)
	stdout, _ = wantCode(t, exitHeld, "status", "-json", path)
	wantText(t, stdout, `"owner_pid":`+owner.pid()+",")
	stdout, _ = wantCode(t, exitOK, "list", filepath.Dir(path))
	wantText(t, stdout, session)
	_, stderr := wantCode(t, exitNotHad, "hold", "-timeout", "0", path)
	wantText(t, stderr, "no session was begun", session)
	owner.kill()
	s.wantEnded()
	if got, want := testkit.Names(t, filepath.Dir(path)), "a.lock.flock"; got != want {
		t.Errorf("left behind: %s; want only %s", got, want)
	}
}

// TestHold_DefaultOwner: without -owner it is the process that has started hold.
func TestHold_DefaultOwner(t *testing.T) {
	s := begin(t, sessions(t))
	if s.OwnerPID != os.Getpid() {
		t.Errorf("the owner is pid %d, want this process, %d", s.OwnerPID, os.Getpid())
	}
	wantCode(t, exitOK, "release", s.Path, s.Nonce)
	s.wantEnded()
}

// TestHold_Release: release ends this session and no other, and once.
func TestHold_Release(t *testing.T) {
	path := sessions(t)
	s := begin(t, path)
	for _, nonce := range []string{strings.Repeat("A", 26), "x"} {
		_, stderr := wantCode(t, exitEnded, "release", path, nonce)
		wantText(t, stderr, "this session has ended ("+path+": held)", "session of pid")
	}
	for _, nonce := range []string{"", "..", "a/b", s.Nonce + "\n", strings.Repeat("A", 65)} {
		_, stderr := wantCode(t, exitUsage, "release", path, nonce)
		wantText(t, stderr, "NONCE is what hold has printed")
	}
	other := begin(t, path+"2")
	_, stderr := wantCode(t, exitUsage, "release", path, other.Nonce)
	wantText(t, stderr, "another lock", path+"2")
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
	for _, command := range []string{"release", "renew"} {
		_, stderr = wantCode(t, exitEnded, command, path, s.Nonce)
		wantText(t, stderr, "this session has ended ("+path+": free)")
	}
	next := begin(t, path)
	_, stderr = wantCode(t, exitEnded, "transfer", "-to", strconv.Itoa(os.Getpid()), path, s.Nonce)
	wantText(t, stderr, "this session has ended ("+path+": held)", strconv.Itoa(next.KeeperPID))
	next.wantHeld()
	wantCode(t, exitOK, "release", path, next.Nonce)
	next.wantEnded()
	wantCode(t, exitOK, "release", path+"2", other.Nonce)
	other.wantEnded()
	wantExit(t, s.keeper)
}

// TestHold_TTL: a session that is renewed in time stays, and one that is not ends.
func TestHold_TTL(t *testing.T) {
	path := sessions(t)
	const ttl = 700 * time.Millisecond
	s := begin(t, "-ttl", ttl.String(), path)
	last := time.Now() // before the renewal was asked for
	for begun := last; time.Since(begun) < 3*ttl; {
		now := time.Now()
		code, _, stderr := holdfast(t, "renew", path, s.Nonce)
		if gap := time.Since(last); gap >= ttl {
			t.Skip("needs a machine that stands still for less, to renew in time: ", gap)
		}
		if code != exitOK {
			t.Fatalf("renewing ended with %d: %s", code, stderr)
		}
		last = now
	}
	s.wantEnded()
	wantCode(t, exitEnded, "renew", path, s.Nonce)

	s = begin(t, path) // without a ttl
	wantCode(t, exitOK, "renew", path, s.Nonce)
	s.wantHeld()
}

// TestExpiry: the whole time passes by either clock, and is looked at now and then.
func TestExpiry(t *testing.T) {
	now := time.Now()
	e := &expiry{ttl: time.Hour}
	if e.due() != nil {
		t.Error("it is due before it has begun")
	}
	e.begin(now)
	for _, test := range []struct {
		now  time.Time
		left time.Duration
	}{
		{now, time.Hour},
		{now.Add(20 * time.Minute), 40 * time.Minute},
		{now.Add(time.Hour), 0},
		{now.Round(0).Add(59 * time.Minute), time.Minute}, // the machine was suspended
		{now.Round(0).Add(61 * time.Minute), -time.Minute},
	} {
		if left := e.left(test.now); left != test.left {
			t.Errorf("at %v there is %v left, want %v", test.now, left, test.left)
		}
		if over := e.passed(test.now); over != (test.left <= 0) {
			t.Errorf("at %v it has passed: %v", test.now, over)
		}
	}
	e.begin(now.Add(time.Hour))
	if left := e.left(now.Add(time.Hour)); left != time.Hour || e.due() == nil {
		t.Errorf("renewed, there is %v left", left)
	}
	never := &expiry{}
	if never.begin(now); never.due() != nil {
		t.Error("without a ttl it ends some time")
	}
}

// TestHold_Transfer: from then on the new owner's life counts, and the old one's does not.
func TestHold_Transfer(t *testing.T) {
	path := sessions(t)
	old, next := anOwner(t), anOwner(t)
	s := begin(t, "-owner", old.pid(), path)
	wantCode(t, exitUsage, "transfer", path, s.Nonce)
	gone := anOwner(t)
	gone.kill()
	_, stderr := wantCode(t, exitError, "transfer", "-to", gone.pid(), path, s.Nonce)
	wantText(t, stderr, gone.pid(), "the owner is still")
	wantOwner := func(want string) {
		t.Helper()
		stdout, _ := wantCode(t, exitHeld, "status", "-json", path)
		wantText(t, stdout, `"owner_pid":`+want+",")
	}
	wantOwner(old.pid())
	wantCode(t, exitOK, "transfer", "-to", next.pid(), path, s.Nonce)
	wantOwner(next.pid())
	old.kill()
	for range 10 { // it has had the time to notice
		wantCode(t, exitOK, "renew", path, s.Nonce)
	}
	s.wantHeld()
	next.kill()
	s.wantEnded()
}

// TestHold_OwnerGone: nothing is taken for an owner who has gone, nor for what is none.
func TestHold_OwnerGone(t *testing.T) {
	path := sessions(t)
	owner := anOwner(t)
	owner.kill()
	_, stderr := wantCode(t, exitError, "hold", "-owner", owner.pid(), path)
	wantText(t, stderr, "pid "+owner.pid(), "has ended already", "no session was begun")
	for _, args := range [][]string{{"-owner", "0"}, {"-owner", "-1"}, {"-ttl", "0"}, {"-ttl", "5"}} {
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
	p := start(t, "hold", "-owner", owner.pid(), path)
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

// TestHold_Lost: a session whose lock file is gone says so, and ends.
func TestHold_Lost(t *testing.T) {
	for _, command := range []string{"renew", "release"} {
		path := sessions(t)
		s := begin(t, path)
		testkit.Check(t, os.Remove(path))
		_, stderr := wantCode(t, exitLost, command, path, s.Nonce)
		wantText(t, stderr, "lock lost")
		s.wantEnded()
		wantCode(t, exitEnded, command, path, s.Nonce)
	}
}
