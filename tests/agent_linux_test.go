package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// agentProgram builds tests/agent, once.
var agentProgram = sync.OnceValues(func() (string, error) {
	program := filepath.Join(filepath.Dir(holdfast), "agent")
	out, err := exec.Command("go", append([]string{"build", "-o", program}, append(buildFlags(), "./agent")...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building the agent: %w: %s", err, out)
	}
	return program, err
})

// agentOf has a command be tests/agent, at work in the folder of a path in many short steps,
// each of several processes that mark what they do (see work).
func agentOf(c *exec.Cmd, path string) {
	worker := c.Path
	step := fmt.Sprintf("'%s' work '%s' held 1 & '%[1]s' work '%[2]s' held 1; wait", worker, path)
	program, _ := agentProgram() // the test has asked before
	c.Path, c.Args = program, []string{"agent", filepath.Dir(path)}
	for range 50 {
		c.Args = append(c.Args, step)
	}
}

// TestAgent_Killed: agents, and not their children, are killed again and again, at any
// moment of any step. No two generations are ever at work at once, and the lock stays no
// longer than the last process.
func TestAgent_Killed(t *testing.T) { // guards: S12
	check(t, errOf(agentProgram()))
	kills := testkit.Rounds(1000, 4)
	if os.Getenv(chaosKillsVar) != "" {
		kills = chaosKills(t)
	}
	overlaps, said, path := generations(t, "tests/agent", kills)
	that(t, overlaps == 0 && said == "", "%d times a generation worked beside another; said: %s", overlaps, said)
	marks, err := filepath.Glob(path + ".marks/*")
	that(t, err == nil && len(marks) == 0, "work that was not brought to its end: %q, %v", marks, err)
	status, err := lock.File{Path: filepath.Join(filepath.Dir(path), ".lock")}.Inspect(t.Context())
	if err != nil || status.State != evidence.Dead && status.State != evidence.Free {
		t.Errorf("the lock afterwards: %+v, %v", status, err)
	}
	t.Logf("%d kills, %d overlaps; the last one was at %q", kills, overlaps, status.Note)
}

// openGate opens a FIFO once somebody has it open to read. What is written to one that nobody
// reads is lost.
func openGate(t *testing.T, path string) (gate *os.File) {
	t.Helper()
	eventually(t, "somebody reads the gate", func() (opened bool) {
		var err error
		gate, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	return gate
}

// passGate lets the reader of a gate go on.
func passGate(t *testing.T, gate *os.File) {
	t.Helper()
	check(t, errOf(fmt.Fprintln(gate)))
	check(t, gate.Close())
}

// TestAgent_GoesOn: an agent is killed in the midst of a step. The next one waits until the
// step's process has ended, learns who died and at what, and goes on from there.
func TestAgent_GoesOn(t *testing.T) { // guards: S16
	program := must(agentProgram())(t)
	repository := t.TempDir()
	lockFile := lock.File{Path: filepath.Join(repository, ".lock")}
	check(t, syscall.Mkfifo(filepath.Join(repository, "gate"), 0o600))
	steps := []string{"echo one >>log", "echo two >>log; read line <gate; echo end of two >>log", "echo three >>log"}
	launch := func() (c *exec.Cmd, out *bytes.Buffer) {
		c, out = exec.Command(program, append([]string{repository}, steps...)...), new(bytes.Buffer)
		c.Stdout, c.Stderr = out, out
		return c, out
	}
	first := exec.Command(program, append([]string{repository}, steps...)...)
	background(t, first)
	note := "step 2 of 3: " + steps[1]
	eventually(t, "step 2", func() bool {
		text, _ := os.ReadFile(filepath.Join(repository, "log"))
		return strings.HasSuffix(string(text), "two\n")
	})
	gate := openGate(t, filepath.Join(repository, "gate"))
	first.Process.Kill()
	first.Wait()
	second, said := launch()
	check(t, second.Start())
	defer second.Process.Kill()
	eventually(t, "the next one waits", func() bool {
		s, err := lockFile.Inspect(t.Context())
		return err == nil && s.State == evidence.Held && s.Gone != nil && s.Gone.PID == first.Process.Pid && s.Note == note &&
			len(s.Waiters) == 1 && s.Waiters[0].PID == second.Process.Pid
	})
	passGate(t, gate)
	// Step 2 is done again, and waits once more.
	eventually(t, "step 2 again", func() bool {
		text, _ := os.ReadFile(filepath.Join(repository, "log"))
		return strings.Count(string(text), "two\n") == 3
	})
	passGate(t, openGate(t, filepath.Join(repository, "gate")))
	if err := second.Wait(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	want := fmt.Sprintf("pid %d died (kernel lock free) at %q; going on at step 2\n", first.Process.Pid, note)
	that(t, said.String() == want, "it said %q, want %q", said, want)
	log, err := os.ReadFile(filepath.Join(repository, "log"))
	if want := "one\ntwo\nend of two\ntwo\nend of two\nthree\n"; err != nil || string(log) != want {
		t.Errorf("%q, %v; want %q", log, err, want)
	}
}
