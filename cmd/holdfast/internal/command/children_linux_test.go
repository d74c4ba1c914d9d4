//go:build !portable

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leaving is a command that leaves a worker behind, and prints its pid.
const leaving = `sleep 1000 >&- 2>&- <&- & echo $!`

// pidLine reads the pid of a process that is killed at the end of the test.
func (p *process) pidLine() int {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatal(p.output())
	}
	pid, err := strconv.Atoi(p.lines.Text())
	if err != nil {
		p.t.Fatal(err)
	}
	found, err := os.FindProcess(pid)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { found.Kill() })
	return pid
}

func killPID(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// TestRunLeavesLockToWorkers: what a command leaves behind keeps the lock, and is who is
// named; the next one has it when that has ended. With --close it does not.
func TestRunLeavesLockToWorkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	p := start(t, "run", "--label", "job", path, "--", "sh", "-c", leaving+"; exit 7")
	worker := p.pidLine()
	code, _, stderr := p.finish()
	if code != 7 {
		t.Errorf("exit code %d, want the command's, 7", code)
	}
	wantText(t, stderr, "stays locked: pid "+strconv.Itoa(worker)+" (sleep)", "--close")
	who := fmt.Sprintf("(pid %d, job) has gone; its process %d (sleep) still has the lock", p.cmd.Process.Pid, worker)
	stdout, _ := wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, who, "wait for it, or end that process")
	stdout, _ = wantCode(t, exitHeld, "status", "--json", path)
	wantText(t, stdout, `"gone":{"pid":`+strconv.Itoa(p.cmd.Process.Pid), `"processes":[{"pid":`+strconv.Itoa(worker))
	wantNoText(t, stdout, `"holder"`)
	_, stderr = wantCode(t, exitNotHad, "run", "--try", path, "--", "true")
	wantText(t, stderr, who)
	stdout, _ = wantCode(t, exitOK, "list", filepath.Dir(path))
	wantText(t, stdout, strconv.Itoa(worker), "sleep", fmt.Sprintf("its holder, pid %d, has gone", p.cmd.Process.Pid))
	_, stderr = wantCode(t, exitNotHad, "break", path)
	wantText(t, stderr, strconv.Itoa(worker))

	next := start(t, runArgs(t, path, "hold")...)
	next.await("waiting for " + path)
	next.await("next ")
	wantText(t, next.output(), who)
	killPID(t, worker)
	next.expect("ready")
	if code, _, stderr := next.finish(); code != 0 {
		t.Errorf("the next one ended with %d: %s", code, stderr)
	}

	p = start(t, "run", "--close", path, "--", "sh", "-c", leaving)
	p.pidLine()
	if code, _, stderr := p.finish(); code != 0 || stderr != "" {
		t.Errorf("exit code %d, and it said: %s", code, stderr)
	}
	wantCode(t, exitOK, "status", path)
}

// TestKilledRunLeavesLockToWorkers: so does what outlives a holdfast that was killed.
func TestKilledRunLeavesLockToWorkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	p := start(t, "run", path, "--", "sh", "-c", leaving+"; exec sleep 1000")
	worker := p.pidLine()
	p.cmd.Process.Kill()
	p.finish()
	stdout, _ := wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, fmt.Sprintf("(pid %d, sh -c …) has gone; its process", p.cmd.Process.Pid), strconv.Itoa(worker))
	killPID(t, worker)
	wantCode(t, exitOK, runArgs(t, path, "exit", "0")...)
}

// TestKillTree: when the command has ended, so have all who come from it, in whatever
// session; those who ignore SIGTERM by SIGKILL, after the grace.
func TestKillTree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	const daemon = `setsid sh -c 'sleep 1000 & sleep 1000' >&- 2>&- <&- & echo $!`
	const deaf = `sh -c 'trap "" TERM; sleep 1000; sleep 1000' >&- 2>&- <&- & echo $!`
	p := start(t, "run", "--kill-tree", "--grace", "1h", path, "--", "sh", "-c", leaving+";"+daemon+"; exit 3")
	one, two := p.pidLine(), p.pidLine()
	if code, _, stderr := p.finish(); code != 3 || stderr != "" {
		t.Errorf("exit code %d, and it said: %s", code, stderr)
	}
	wantGone(t, one)
	wantGone(t, two)
	wantCode(t, exitOK, "status", path)

	p = start(t, "run", "--kill-tree", "--grace", "1ms", path, "--", "sh", "-c", deaf)
	one = p.pidLine()
	if code, _, stderr := p.finish(); code != 0 || stderr != "" {
		t.Errorf("exit code %d, and it said: %s", code, stderr)
	}
	wantGone(t, one)
	wantCode(t, exitOK, "status", path)
}

// TestKillTreeWhenTold: a holdfast that is told to end does so with the whole tree, though
// the command itself is deaf.
func TestKillTreeWhenTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	cmd := child(t, "run", "--kill-tree", "--grace", "20ms", path, "--", "sh", "-c", `trap "" TERM;`+leaving+`; while :; do sleep 1000 >&- 2>&-; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := startCommand(t, cmd)
	worker := p.pidLine()
	p.signal(syscall.SIGTERM)
	if code, _, stderr := p.finish(); code != exitSignal+int(syscall.SIGKILL) || stderr != "" {
		t.Errorf("exit code %d, and it said: %s", code, stderr)
	}
	wantGone(t, worker)
	wantCode(t, exitOK, "status", path)
}

// TestIsBelow: whoever is above a process may end while it is climbed from, and those below
// have another parent then.
func TestIsBelow(t *testing.T) {
	const self, worker, shell, stranger = 10, 30, 20, 40
	// What is read each time: a parent; -1: it is not there; 0: it is being buried.
	for name, test := range map[string]struct {
		worker, shell []int
		want          bool
	}{
		"a child":                          {worker: []int{self}, want: true},
		"a grandchild":                     {worker: []int{shell}, shell: []int{self}, want: true},
		"its parent ends meanwhile":        {worker: []int{shell, self}, shell: []int{-1}, want: true},
		"its parent is being buried":       {worker: []int{shell, self}, shell: []int{0}, want: true},
		"it is being buried":               {worker: []int{0}},
		"it ends meanwhile":                {worker: []int{shell, -1}, shell: []int{-1}},
		"it is not there":                  {worker: []int{-1}},
		"another's":                        {worker: []int{stranger}},
		"its parent ends, and init has it": {worker: []int{shell, 1}, shell: []int{-1}},
		"its parent can't be seen":         {worker: []int{shell}, shell: []int{-1}},
	} {
		reads := map[int][]int{worker: test.worker, shell: test.shell, stranger: {1}}
		got := isBelow(self, worker, func(pid int) (parent int, ended, ok bool) {
			parent = reads[pid][0]
			if len(reads[pid]) > 1 {
				reads[pid] = reads[pid][1:]
			}
			return parent, false, parent >= 0
		})
		if got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestKillTreeNotOthers: children that holdfast did not start, but was left by the shell that
// it replaced, are not ended.
func TestKillTreeNotOthers(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := child(t, "run", "--kill-tree", filepath.Join(t.TempDir(), "a.lock"), "--", "true")
	script := "sleep 1000 >&- 2>&- <&- & echo $!; exec \"$0\" \"$@\""
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", script, exe}, cmd.Args[1:]...)
	p := startCommand(t, cmd)
	other := p.pidLine()
	code, _, stderr := p.finish()
	if code != exitUsage {
		t.Errorf("exit code %d, and it said: %s", code, stderr)
	}
	wantText(t, stderr, "has children already", strconv.Itoa(other))
	if err := syscall.Kill(other, 0); err != nil {
		t.Error("it was ended: ", err)
	}
	killPID(t, other)
}

// TestKillTreeAtOnce: who has waited long enough for the grace to pass says so by another
// signal.
func TestKillTreeAtOnce(t *testing.T) {
	const deaf = `sh -c 'trap "" TERM; echo $$; exec >&- 2>&- <&-; while :; do sleep 1000; done' & read line`
	p := start(t, "run", "--kill-tree", "--grace", "1h", filepath.Join(t.TempDir(), "a.lock"), "--", "sh", "-c", deaf)
	worker := p.pidLine()
	p.stdin.Close() // the command ends, and the worker does not
	for ended := false; !ended; {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // the first may come before the command has ended
		select {
		case <-p.done:
			ended = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.finish()
	wantGone(t, worker)
}

// TestKillTreeBuries: orphans that end while the command runs are not left as zombies.
func TestKillTreeBuries(t *testing.T) {
	p := start(t, "run", "--kill-tree", filepath.Join(t.TempDir(), "a.lock"), "--",
		"sh", "-c", `(sh -c 'echo $$; exec sleep 1000' & ) ; read line; echo "$line"; read line`)
	orphan := p.pidLine()
	killPID(t, orphan)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat("/proc/" + strconv.Itoa(orphan)); err != nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the orphan is a zombie")
		}
	}
	if code, _, stderr := p.finish(); code != 1 || stderr != "" {
		t.Errorf("exit code %d, and it said: %s", code, stderr)
	}
}

func wantGone(t *testing.T, pid int) {
	t.Helper()
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("pid %d is still there: %s", pid, stat)
	}
}

// TestRunNested: whoever wants the lock that a process above has is told at once.
func TestRunNested(t *testing.T) { // guards: S2
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a\xff.lock")
	for _, how := range [][]string{nil, {"--close"}} {
		// Two levels down, and beside another lock.
		args := slices.Concat([]string{"run", "--label", "above"}, how, []string{path, "--", exe, "run", path + "2", "--",
			"sh", "-c", `"$0" run "$1" "$1"3 -- true; echo $?`, exe, path})
		p := start(t, args...)
		code, stdout, stderr := p.finish()
		if code != 0 || stdout != "75\n" {
			t.Errorf("exit code %d, the inner one %s", code, stdout)
		}
		wantText(t, stderr, "held by a process that has started this one", "pid "+strconv.Itoa(p.cmd.Process.Pid), "above")
	}
}

// TestRun_KillTreeOfChain: a process that starts another and ends, again and again, so that no
// look at the processes finds it, does not get away. It would have the lock.
func TestRun_KillTreeOfChain(t *testing.T) {
	dir := t.TempDir() // without which the chain ends
	script := filepath.Join(dir, "chain.sh")
	write(t, script, "trap '' TERM\n[ -e \"$0\" ] || exit\nsh \"$0\" &\n")
	path := filepath.Join(dir, ".lock")
	for range 5 {
		_, stderr := wantCode(t, exitOK, "run", "--kill-tree", "--grace", "10ms", path, "--", "sh", script)
		if stderr != "" {
			t.Error(stderr)
		}
		wantCode(t, exitOK, "status", path)
	}
}
