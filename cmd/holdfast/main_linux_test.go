package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/command"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	"github.com/jackc/pgx/v5"
)

// server is the one of all tests.
var server *pgtest.Server

const theCommand = "holdfast"

func TestMain(m *testing.M) {
	testkit.Play(func(string, []string) { command.Main() })
	os.Exit(run(m))
}

// TestServerIsThere stands for all that can't run without one.
func TestServerIsThere(t *testing.T) {
	if server == nil {
		t.Skip("needs PostgreSQL's server, to hold locks of it")
	}
}

func run(m *testing.M) int {
	for e := range strings.SplitSeq("PGHOST PGPORT PGUSER PGPASSWORD PGDATABASE PGSERVICE PGAPPNAME HOLDFAST_LOCK", " ") {
		os.Unsetenv(e)
	}
	var err error
	server, err = pgtest.Start("max_prepared_transactions=5")
	if errors.Is(err, pgtest.ErrMissing) {
		flag.Parse()
		_ = flag.Set("test.run", "^(TestServerIsThere|TestEtcd)$") // the others can't run
		return m.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	code := testkit.Run(m)
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: stop:", err)
		return 1
	}
	return code
}

// A process is a holdfast.
type process struct {
	t              *testing.T
	cmd            *osexec.Cmd
	stdin          io.WriteCloser
	stdout, stderr *output
	ended          func() // waits for it
}

// output is what a process has said so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startIn(t, nil, args...)
}

// startIn starts a holdfast, with something more in its environment.
func startIn(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: testkit.Command(t, theCommand, args...), stdout: &output{}, stderr: &output{}}
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	check(t, err)
	check(t, p.cmd.Start())
	p.ended = sync.OnceFunc(func() { _ = p.cmd.Wait() })
	t.Cleanup(func() {
		p.stdin.Close()
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		p.ended()
	})
	return p
}

// said waits until an output has a text.
func (p *process) said(o *output, text string) {
	p.t.Helper()
	testkit.Eventually(p.t, "it says "+text, func() bool { return strings.Contains(o.String(), text) })
}

// finish gives it the last input, and returns the exit code.
func (p *process) finish(input string) (code int) {
	p.t.Helper()
	_, _ = io.WriteString(p.stdin, input)
	p.stdin.Close()
	testkit.Promptly(p.t, "holdfast", p.ended)
	return p.cmd.ProcessState.ExitCode()
}

// want runs a holdfast to its end, with an input, and checks its exit code.
func want(t *testing.T, code int, input string, args ...string) (stdout, stderr string) {
	t.Helper()
	p := start(t, args...)
	if got := p.finish(input); got != code {
		t.Fatalf("holdfast %q: exit code %d, want %d\n%s%s", args, got, code, p.stdout, p.stderr)
	}
	return p.stdout.String(), p.stderr.String()
}

// hold has a holdfast hold locks until its input ends.
func hold(t *testing.T, conn string, args ...string) *process {
	t.Helper()
	p := start(t, slices.Concat([]string{"run", "--pg", conn}, args, []string{"--", "sh", "-c", "echo ready; cat"})...)
	p.said(p.stdout, "ready")
	return p
}

// backend is the pid of the one that has a test's lock.
func backend(t *testing.T, conn *pgx.Conn, label string) (pid int) {
	t.Helper()
	check(t, conn.QueryRow(context.Background(), `SELECT DISTINCT pid FROM pg_stat_activity JOIN pg_locks USING (pid)
		WHERE application_name = $1 AND locktype = 'advisory' AND granted`, label).Scan(&pid))
	return pid
}

var check = testkit.Check

func connect(t *testing.T, conn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), conn)
	check(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func exec(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	_, err := c.Exec(context.Background(), sql)
	check(t, err)
}

// newDatabase makes one of a test's own.
func newDatabase(t *testing.T) (conn string) {
	t.Helper()
	name := strings.ToLower(t.Name())
	exec(t, connect(t, server.Conn()), "CREATE DATABASE "+name)
	return strings.Replace(server.Conn(), "dbname=postgres", "dbname="+name, 1)
}

// wantText fails unless text has all the parts.
func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}
