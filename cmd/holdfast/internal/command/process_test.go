package command

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// process is a holdfast that runs.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *bufio.Scanner // standard output
	output func() string  // what standard error has had so far
	done   chan struct{}  // closed when standard error has ended
}

// patience bounds how long a process of a test may take. It decides nothing
// unless something hangs.
const patience = 2 * time.Minute

func child(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	testkit.Check(t, err)
	cmd := exec.Command(exe, args...)
	// The race detector would have each process sleep for a second at its end.
	cmd.Env = append(os.Environ(), mainVar+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return cmd
}

// start starts holdfast.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startCommand(t, child(t, args...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	testkit.Check(t, err)
	stderr, err := cmd.StderrPipe()
	testkit.Check(t, err)
	testkit.Check(t, cmd.Start())
	p.lines = bufio.NewScanner(stdout)
	var mu sync.Mutex
	var text bytes.Buffer
	p.output = func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
	go func() {
		defer close(p.done)
		for lines := bufio.NewReader(stderr); ; {
			line, err := lines.ReadString('\n')
			mu.Lock()
			text.WriteString(line)
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	// Its command may live on, and hold the other ends: close ours too.
	watchdog := time.AfterFunc(patience, func() {
		cmd.Process.Kill()
		stdout.Close()
		stderr.Close()
	})
	t.Cleanup(func() {
		watchdog.Stop()
		p.stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return p
}

// expect reads a line of standard output.
func (p *process) expect(want string) {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("standard output ended, want %q; standard error:\n%s", want, p.output())
	}
	if got := p.lines.Text(); got != want {
		p.t.Fatalf("got line %q, want %q", got, want)
	}
}

// await waits until standard error has a text.
func (p *process) await(text string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		switch {
		case strings.Contains(p.output(), text):
			return
		case time.Now().After(deadline):
			p.t.Fatalf("never said %q on standard error, but:\n%s", text, p.output())
		}
	}
}

// finish ends the input, and returns the exit code and what is left of the
// output.
func (p *process) finish() (code int, stdout, stderr string) {
	p.t.Helper()
	p.stdin.Close()
	var rest strings.Builder
	for p.lines.Scan() {
		rest.WriteString(p.lines.Text() + "\n")
	}
	if err := p.lines.Err(); err != nil {
		p.t.Fatalf("%q did not end: %v\n%s", p.cmd.Args, err, p.output())
	}
	<-p.done
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode(), rest.String(), p.output()
}

// holdfast runs holdfast to its end.
func holdfast(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return start(t, args...).finish()
}

// wantCode runs holdfast to its end, and looks at its exit code.
func wantCode(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := holdfast(t, args...)
	if code != want {
		t.Fatalf("holdfast %q: exit code %d, want %d\n%s%s", args, code, want, stdout, stderr)
	}
	return stdout, stderr
}
