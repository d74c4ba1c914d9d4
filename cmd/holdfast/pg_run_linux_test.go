package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
)

// TestRun: while one holds, another is refused, at once or after a time, and told who
// holds; a third one waits, and goes on when the lock is free.
func TestRun(t *testing.T) {
	conn := server.Conn()
	holder := hold(t, conn, "--label", "the holder", "run/a")
	pid := fmt.Sprint("backend ", backend(t, connect(t, conn), "the holder"))

	_, told := want(t, 75, "", "run", "--pg", conn, "--try", "run/a", "--", "true")
	wantText(t, told, "run/a is locked; the command was not run", pid+": the holder", "alive     a session of the database holds the lock",
		"holdfast break --pg ... run/a", "pg_stat_activity WHERE pid = ")
	_, told = want(t, 75, "", "run", "--pg", conn, "--timeout", "10ms", "run/a", "--", "true")
	wantText(t, told, "run/a is still locked after 10ms", pid)
	want(t, 75, "", "run", "--pg", conn, "--timeout", "0", "run/a", "--", "true")
	want(t, 75, "", "run", "--pg", conn, "--shared", "--try", "run/a", "--", "true")
	want(t, 9, "", "run", "--pg", conn, "--try", "--conflict-exit-code", "9", "--also", "run/b", "run/a", "--", "true")
	if _, told := want(t, 75, "", "run", "--pg", conn, "--try", "--quiet", "run/a", "--", "true"); told != "" {
		t.Errorf("with --quiet it says %s", told)
	}
	want(t, 4, "", "run", "--pg", conn, "--try", "run/b", "--", "sh", "-c", "exit 4") // it was let go

	next := start(t, "run", "--pg", conn, "--also", "run/0", "run/a", "--", "sh", "-c", "echo ready; cat")
	next.said(next.stderr, "waiting for run/a")
	next.said(next.stderr, "who that is")
	wantText(t, next.stderr.String(), pid+": the holder")
	if strings.Contains(next.stderr.String(), "waiting for run/0") {
		t.Errorf("it waits for itself:\n%s", next.stderr)
	}
	if code := holder.finish(""); code != 0 {
		t.Errorf("the holder ended with %d\n%s", code, holder.stderr)
	}
	next.said(next.stdout, "ready")
	if code := next.finish(""); code != 0 {
		t.Errorf("the next one ended with %d\n%s", code, next.stderr)
	}
}

// TestRun_Signal: a wait ends by a signal, and leaves nothing.
func TestRun_Signal(t *testing.T) {
	holder := hold(t, server.Conn(), "signal/a")
	next := start(t, "run", "--pg", server.Conn(), "signal/a", "--", "true")
	next.said(next.stderr, "waiting for")
	check(t, next.cmd.Process.Signal(syscall.SIGINT))
	if code := next.finish(""); code != 128+int(syscall.SIGINT) {
		t.Errorf("exit code %d\n%s", code, next.stderr)
	}
	if out, _ := want(t, 3, "", "status", "--pg", server.Conn(), "signal/a"); strings.Contains(out, "waiting") {
		t.Errorf("somebody waits still:\n%s", out)
	}
	holder.finish("")
}

// TestRun_Environment: what the command finds there, and what it must not.
func TestRun_Environment(t *testing.T) {
	conn := server.Conn() + " password=s3cret"
	env := func(args ...string) map[string]string {
		t.Helper()
		out, _ := want(t, 0, "", append([]string{"run", "--pg", conn}, append(args, "--", "sh", "-c", "env; cat /proc/$$/cmdline")...)...)
		if strings.Contains(out, "s3cret") || strings.Contains(out, "dbname=") {
			t.Errorf("the connection string is handed on:\n%s", out)
		}
		vars := map[string]string{}
		last := ""
		for line := range strings.Lines(out) {
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if ok && !strings.Contains(name, " ") {
				last = name
				vars[name] = value
			} else {
				vars[last] += "\n" + strings.TrimSuffix(line, "\n")
			}
		}
		return vars
	}
	var first, second, third int64
	vars := env("env/a")
	if _, err := fmt.Sscan(vars["HOLDFAST_FENCE"], &first); vars["HOLDFAST_LOCK"] != "env/a" || err != nil || first == 0 {
		t.Errorf("lock %q, fence %q", vars["HOLDFAST_LOCK"], vars["HOLDFAST_FENCE"])
	}
	if before, has := vars["HOLDFAST_PREDECESSOR"]; before != "" || !has {
		t.Errorf("before it came %q, %v", before, has)
	}
	want(t, 64, "", "run", "--pg", conn, "env/a", "--", testkit.Command(t, theCommand).Path, "note", "x")
	vars = env("--also", "env/c", "env/b")
	if _, err := fmt.Sscan(vars["HOLDFAST_FENCE"], &second, &third); vars["HOLDFAST_LOCK"] != "env/b\nenv/c" || err != nil || second <= first || third <= second {
		t.Errorf("locks %q, fences %q, after %d", vars["HOLDFAST_LOCK"], vars["HOLDFAST_FENCE"], first)
	}
	vars = env("--shared", "env/a")
	if fence, has := vars["HOLDFAST_FENCE"]; vars["HOLDFAST_LOCK"] != "env/a" || has {
		t.Errorf("a reader has %q, %q", vars["HOLDFAST_LOCK"], fence)
	}
}

// TestRun_Nested: who waits for a lock that a process above has is told so.
func TestRun_Nested(t *testing.T) {
	exe := testkit.Command(t, theCommand).Path
	p := start(t, "run", "--pg", server.Conn(), "nested/a", "--", exe, "run", "--pg", server.Conn(), "nested/a", "--", "true")
	p.said(p.stderr, "itself started under this lock (HOLDFAST_LOCK)")
}

// TestRun_Readers hold together, and keep a writer out.
func TestRun_Readers(t *testing.T) {
	conn := server.Conn()
	first := hold(t, conn, "--shared", "--label", "one", "readers/a")
	second := hold(t, conn, "--shared", "--label", "two", "readers/a")
	_, told := want(t, 75, "", "run", "--pg", conn, "--try", "readers/a", "--", "true")
	wantText(t, told, "readers   2: backend ", "(one)", "(two)", "wait for them, or end those sessions")
	first.finish("")
	want(t, 75, "", "run", "--pg", conn, "--try", "readers/a", "--", "true")
	second.finish("")
	want(t, 0, "", "run", "--pg", conn, "--try", "readers/a", "--", "true")
}

// TestRun_Killed: the lock of a holdfast that was killed is free, and its command is
// killed, too.
func TestRun_Killed(t *testing.T) {
	conn := server.Conn()
	p := start(t, "run", "--pg", conn, "killed/a", "--", "sh", "-c", "echo ready; exec cat")
	p.said(p.stdout, "ready")
	next := start(t, "run", "--pg", conn, "killed/a", "--", "true")
	next.said(next.stderr, "waiting for")
	check(t, p.cmd.Process.Kill())
	if code := next.finish(""); code != 0 {
		t.Errorf("exit code %d\n%s", code, next.stderr)
	}
	testkit.Promptly(t, "the command", p.ended) // it has the output, too
	want(t, 0, "", "status", "--pg", conn, "killed/a")
}

// TestRun_Lost: a session that ends takes the lock with it; the command is told to end.
func TestRun_Lost(t *testing.T) {
	conn := server.Conn()
	admin := connect(t, conn)
	p := start(t, "run", "--pg", conn, "--label", "loser", "--also", "lost/a", "lost/b", "--", "sh", "-c",
		"trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	p.said(p.stdout, "ready")
	exec(t, admin, fmt.Sprintf("SELECT pg_terminate_backend(%d)", backend(t, admin, "loser")))
	if code := p.finish(""); code != 118 {
		t.Errorf("exit code %d, want 118", code)
	}
	wantText(t, p.stdout.String(), "told")
	wantText(t, p.stderr.String(), "lost lost/a: the session that had it has ended, or can't be heard any more", "lost lost/b: ", "the command is asked to end",
		"exit code 118, as the lock was lost; the command's own exit code was 0")
	if n := strings.Count(p.stderr.String(), "lost lost/a"); n != 1 {
		t.Errorf("told %d times:\n%s", n, p.stderr)
	}
	want(t, 0, "", "run", "--pg", conn, "--try", "--also", "lost/a", "lost/b", "--", "true")
}

// TestRun_ServerEnds: so does the command, and then holdfast.
func TestRun_ServerEnds(t *testing.T) {
	s, err := pgtest.Start()
	check(t, err)
	p := hold(t, s.Conn(), "ends/a")
	check(t, s.Stop())
	p.said(p.stderr, "lost ends/a")
	if code := p.finish(""); code != 118 {
		t.Errorf("exit code %d, want 118\n%s", code, p.stderr)
	}
}

// TestRun_KillTree: what the command leaves behind does not have the lock, and is ended
// if that is asked for.
func TestRun_KillTree(t *testing.T) {
	script := "sleep 1000 >/dev/null 2>&1 & echo pid $!"
	for _, args := range [][]string{{}, {"--kill-tree"}} {
		p := start(t, append(append([]string{"run", "--pg", server.Conn()}, args...), "tree/a", "--", "sh", "-c", script)...)
		p.said(p.stdout, "\n")
		var pid int
		_, err := fmt.Sscanf(p.stdout.String(), "pid %d", &pid)
		check(t, err)
		if code := p.finish(""); code != 0 {
			t.Errorf("%s: exit code %d\n%s", args, code, p.stderr)
		}
		want(t, 0, "", "status", "--pg", server.Conn(), "tree/a")
		if len(args) == 0 {
			check(t, syscall.Kill(pid, syscall.SIGKILL))
		} else if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// TestRun_Raw: a program that locks by number is met.
func TestRun_Raw(t *testing.T) {
	c := connect(t, server.Conn())
	exec(t, c, "SELECT pg_advisory_lock(7, -8)")
	_, told := want(t, 75, "", "run", "--pg", server.Conn(), "--try", "#/7,-8", "--", "true")
	wantText(t, told, fmt.Sprint("backend ", c.PgConn().PID()))
	exec(t, c, "SELECT pg_advisory_unlock(7, -8)")
	want(t, 0, "", "run", "--pg", server.Conn(), "--try", "#/7,-8", "--", "true")
}
