package main

import (
	"fmt"
	"github.com/holdfast-go/holdfast/lock/pg"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestBreak: the session of a holder that is stopped is ended, with all that it holds,
// after it was said how much that is. The holder is told when it goes on.
func TestBreak(t *testing.T) {
	conn := server.Conn()
	holder := hold(t, conn, "--label", "stopped", "--also", "break/b", "--also", "break/c", "break/a")
	check(t, holder.cmd.Process.Signal(syscall.SIGSTOP))
	pid := backend(t, connect(t, conn), "stopped")
	next := start(t, "run", "--pg", conn, "break/b", "--", "true")
	next.said(next.stderr, "waiting for break/b")

	for _, answer := range []string{"", "n\n", "yeah\n", "\n"} {
		out, told := want(t, 75, answer, "break", "--pg", conn, "break/a")
		wantText(t, told, fmt.Sprintf("backend %d: stopped", pid), "3 locks in this database, this one among them",
			fmt.Sprintf("End backend %d? [y/N] ", pid), "break/a was not broken", "without a question: holdfast break --pg ... --force ")
		if out != "" {
			t.Errorf("it was not broken, and yet:\n%s", out)
		}
	}
	out, told := want(t, 0, "y\n", "break", "--pg", conn, "break/a")
	wantText(t, told, "3 locks")
	wantText(t, out, "break/a: ended the session that had it", fmt.Sprintf("backend %d: stopped", pid), "it held   3 locks")
	want(t, 0, "", "run", "--pg", conn, "--try", "--also", "break/a", "break/c", "--", "true")
	if code := next.finish(""); code != 0 {
		t.Errorf("who waited ended with %d\n%s", code, next.stderr)
	}
	check(t, holder.cmd.Process.Signal(syscall.SIGCONT))
	holder.said(holder.stderr, "lost break/a")
	if code := holder.finish(""); code != 118 {
		t.Errorf("who held ended with %d\n%s", code, holder.stderr)
	}
	out, _ = want(t, 0, "", "break", "--pg", conn, "break/a")
	wantText(t, out, "break/a: free, nothing to end")
}

// TestBreak_Force ends the session that was looked at, without a question, and no other.
func TestBreak_Force(t *testing.T) {
	conn := server.Conn()
	type breakage struct {
		lock.Status
		Removed bool
		Ended   []pg.Session
	}
	status := func() lock.Status {
		out, _ := want(t, 3, "", "status", "--pg", conn, "--json", "force/a")
		return decode[lock.Status](t, out)
	}
	first := hold(t, conn, "force/a")
	seen := status()
	first.finish("")
	second := hold(t, conn, "force/a")
	for _, nonce := range []string{seen.Info.Nonce, fmt.Sprint(status().Info.PID, "-1")} { // also one with its pid
		_, told := want(t, 75, "y\n", "break", "--pg", conn, "--force", nonce, "force/a")
		wantText(t, told, "--force names another session than has it now")
	}
	_, told := want(t, 64, "", "break", "--pg", conn, "--force", "", "force/a")
	wantText(t, told, "wants the nonce")
	out, _ := want(t, 75, "y\n", "break", "--pg", conn, "--json", "force/a")
	if b := decode[breakage](t, out); b.Removed || b.Info == nil || b.Info.Nonce != status().Info.Nonce {
		t.Errorf("with --json alone: %s", out)
	}
	out, _ = want(t, 0, "", "break", "--pg", conn, "--json", "--force", status().Info.Nonce, "force/a")
	if b := decode[breakage](t, out); !b.Removed || len(b.Ended) != 1 || b.Ended[0].Locks != 1 || b.State != evidence.Held {
		t.Errorf("with --force: %s", out)
	}
	second.said(second.stderr, "lost force/a")
	if code := second.finish(""); code != 118 {
		t.Errorf("who held ended with %d", code)
	}
}

// TestBreak_LetGo: a session that has let go of the lock while it was asked about is left
// alone, with all else that it holds.
func TestBreak_LetGo(t *testing.T) {
	conn := server.Conn()
	c := connect(t, conn)
	exec(t, c, "SELECT pg_advisory_lock(81), pg_advisory_lock(82)")
	p := start(t, "break", "--pg", conn, "#/81")
	p.said(p.stderr, "[y/N]")
	wantText(t, p.stderr.String(), "2 locks")
	exec(t, c, "SELECT pg_advisory_unlock(81)")
	if code := p.finish("y\n"); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.stderr)
	}
	wantText(t, p.stdout.String(), "nothing was ended")
	want(t, 3, "", "status", "--pg", conn, "#/82")
}

// TestBreak_Readers are asked about one by one.
func TestBreak_Readers(t *testing.T) {
	conn := server.Conn()
	one, two := hold(t, conn, "--shared", "several/a"), hold(t, conn, "--shared", "several/a")
	out, told := want(t, 75, "y\nn\n", "break", "--pg", conn, "several/a")
	wantText(t, out, "ended the session")
	wantText(t, told, "was not broken")
	if n := strings.Count(told, "[y/N]"); n != 2 {
		t.Errorf("asked %d times:\n%s", n, told)
	}
	out, _ = want(t, 3, "", "status", "--pg", conn, "several/a")
	wantText(t, out, "holder    backend ", ", shared")
	want(t, 0, "y\n", "break", "--pg", conn, "several/a")
	for _, p := range []*process{one, two} {
		p.said(p.stderr, "lost several/a")
		p.finish("")
	}
}

// TestBreak_BackendStopped: what the server can't do is said.
func TestBreak_BackendStopped(t *testing.T) {
	conn := server.Conn()
	holder := hold(t, conn, "--label", "frozen", "frozen/a")
	pid := backend(t, connect(t, conn), "frozen")
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	_, told := want(t, 1, "y\n", "break", "--pg", conn, "frozen/a")
	wantText(t, told, "it goes on; it may be stopped", "the lock may still be held")
	want(t, 3, "", "status", "--pg", conn, "frozen/a")
	check(t, syscall.Kill(pid, syscall.SIGCONT))
	holder.said(holder.stderr, "lost frozen/a")
	if code := holder.finish(""); code != 118 {
		t.Errorf("who held ended with %d\n%s", code, holder.stderr)
	}
	testkit.Eventually(t, "it is free", func() bool { return start(t, "status", "--pg", conn, "frozen/a").finish("") == 0 })
}
