package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/monitor"
	"github.com/holdfast-go/holdfast/lock/pg"
)

// decode reads one line of JSON.
func decode[T any](t *testing.T, line string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return v
}

func TestStatus(t *testing.T) {
	conn := server.Conn()
	out, _ := want(t, 0, "", "status", "--pg", conn, "status/a")
	if out != "status/a: free\n  because   no session of the database has it\n" {
		t.Errorf("of a free lock it says\n%s", out)
	}
	out, _ = want(t, 0, "", "status", "--pg", conn, "--json", "status/a")
	if s := decode[lock.Status](t, out); s.Path != "status/a" || s.State != evidence.Free || s.Info != nil {
		t.Errorf("of a free lock: %s", out)
	}
	before := time.Now().Add(-time.Second)
	holder := hold(t, conn, "--label", "status test", "status/a")
	pid := backend(t, connect(t, conn), "status test")
	next := start(t, "run", "--pg", conn, "status/a", "--", "true")
	next.said(next.stderr, "waiting for status/a")

	out, _ = want(t, 3, "", "status", "--pg", conn, "status/a")
	wantText(t, out, "status/a: held\n", fmt.Sprintf("  holder    backend %d: status test\n", pid), "  since     ",
		"  alive     a session of the database holds the lock\n", "  next      wait for it, or end that session, with all that it holds:\n",
		"  holdfast break --pg ... status/a\n", "  waiting   1: backend ")
	out, _ = want(t, 3, "", "status", "--pg", conn, "--json", "status/a")
	s := decode[lock.Status](t, out)
	if s.State != evidence.Held || s.Info == nil || s.Info.PID != pid || s.Info.Cmd != "status test" || s.Info.Nonce == "" ||
		s.Info.CreatedAt.Before(before) || len(s.Waiters) != 1 || s.Waiters[0].Since.IsZero() {
		t.Errorf("of a lock that is held: %s", out)
	}
	holder.finish("")
	next.finish("")
	out, _ = want(t, 0, "", "status", "--pg", conn, "--json", "status/a")
	if now := decode[lock.Status](t, out); s.Fence <= 0 || now.Fence <= s.Fence {
		t.Errorf("the fence was %d, and then %s", s.Fence, out)
	}
}

// TestStatus_Prepared: what no session has can't be ended as one.
func TestStatus_Prepared(t *testing.T) {
	conn := newDatabase(t)
	c := connect(t, conn)
	exec(t, c, "BEGIN")
	exec(t, c, "SELECT pg_advisory_xact_lock(5)")
	exec(t, c, "PREPARE TRANSACTION 'p'")
	out, _ := want(t, 3, "", "status", "--pg", conn, "#/5")
	wantText(t, out, "a prepared transaction holds the lock", "ROLLBACK PREPARED", "it is no session's")
	out, _ = want(t, 75, "y\n", "break", "--pg", conn, "--json", "#/5")
	wantText(t, out, `"removed":false`)
	_, told := want(t, 75, "y\n", "break", "--pg", conn, "#/5")
	wantText(t, told, "no session has it")
	exec(t, c, "ROLLBACK PREPARED 'p'")
	want(t, 0, "", "status", "--pg", conn, "#/5")
}

// TestStatus_Label: without one it is what can't be a secret.
func TestStatus_Label(t *testing.T) {
	holder := hold(t, server.Conn(), "label/a")
	out, _ := want(t, 3, "", "status", "--pg", server.Conn(), "label/a")
	wantText(t, out, ": sh -c ...\n")
	holder.finish("")
}

// TestStatus_Number: a lock with a name is known by its number, too.
func TestStatus_Number(t *testing.T) {
	conn := newDatabase(t)
	holder := hold(t, conn, "number/a")
	var key int64
	check(t, connect(t, conn).QueryRow(context.Background(), "SELECT key FROM holdfast.names").Scan(&key))
	out, _ := want(t, 3, "", "status", "--pg", conn, fmt.Sprint("#/", key))
	wantText(t, out, ": held", "holder    backend ", "a session of the database holds the lock")
	holder.finish("")
}

// TestStatus_Numeric: a space that somebody has registered is known.
func TestStatus_Numeric(t *testing.T) {
	conn := newDatabase(t)
	l, err := pg.Open(t.Context(), pg.Options{Conn: conn, Cmd: "theirs"})
	check(t, err)
	defer l.Close()
	check(t, l.Register(t.Context(), "accounts", 9))
	held, err := l.Acquire(t.Context(), lock.Key{Space: "accounts", Name: "7"})
	check(t, err)
	_, told := want(t, 75, "", "run", "--pg", conn, "--try", "accounts/7", "--", "true")
	wantText(t, told, "accounts/7 is locked", "theirs")
	want(t, 0, "y\n", "break", "--pg", conn, "accounts/7")
	<-held.Lost()
	want(t, 64, "", "run", "--pg", conn, "--try", "accounts/x", "--", "true")
}

func TestList(t *testing.T) {
	conn := newDatabase(t)
	if out, _ := want(t, 0, "", "list", "--pg", conn); out != "0 locks: 0 held, 0 free, 0 dead, 0 unknown\n" {
		t.Errorf("of an empty database it says\n%s", out)
	}
	exec(t, connect(t, conn), "SELECT pg_advisory_lock(42)")
	var all []*process
	for _, args := range [][]string{{"--label", "one", "list/a"}, {"--label", "two", "--shared", "list/b"}, {"--label", "three", "--shared", "list/b"}} {
		all = append(all, hold(t, conn, args...))
	}
	next := start(t, "run", "--pg", conn, "--label", "four", "list/a", "--", "true")
	next.said(next.stderr, "waiting for list/a")

	out, _ := want(t, 0, "", "list", "--pg", conn)
	wantText(t, out, "STATE", "one ", " list/a\n", " list/b\n", " #/42\n", "3 locks: 3 held, 0 free")
	out, _ = want(t, 0, "", "list", "--waiting", "--pg", conn)
	wantText(t, out, "waiting  ", "four", "; 1 waiting\n")
	out, _ = want(t, 0, "", "list", "--json", "--pg", conn)
	found := map[string]lock.Status{}
	for line := range strings.Lines(out) {
		s := decode[lock.Status](t, line)
		found[s.Path] = s
	}
	if a := found["list/a"]; len(found) != 3 || a.Info == nil || a.Info.Cmd != "one" || len(a.Waiters) != 1 {
		t.Errorf("list/a is %+v, in\n%s", a, out)
	}
	if b := found["list/b"]; !b.Shared || b.Info != nil || len(b.Processes) != 2 {
		t.Errorf("list/b is %+v, in\n%s", b, out)
	}
	for _, p := range all {
		p.finish("")
	}
	next.finish("")
}

// lowRole makes a role that may lock, and no more, and returns its connection string.
func lowRole(t *testing.T, conn string) string {
	t.Helper()
	c := connect(t, conn)
	role := strings.ToLower(t.Name())
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN", "GRANT EXECUTE ON FUNCTION pg_control_system() TO " + role,
		"GRANT USAGE ON SCHEMA holdfast TO " + role, "GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO " + role,
	} {
		exec(t, c, sql)
	}
	return strings.Replace(conn, "user=holdfast", "user="+role, 1)
}

// TestRights: of others' sessions a role may see little. What is not seen is not made up,
// and what can't be told from another is not ended.
func TestRights(t *testing.T) {
	conn := newDatabase(t)
	holder := hold(t, conn, "--label", "hidden", "rights/a")
	low := lowRole(t, conn)
	out, _ := want(t, 3, "", "status", "--pg", low, "rights/a")
	wantText(t, out, "holder    backend ", "(hidden)")
	if strings.Contains(out, "since") {
		t.Errorf("it claims to know since when:\n%s", out)
	}
	_, told := want(t, 1, "", "list", "--pg", low)
	wantText(t, told, "GRANT pg_read_all_stats TO")
	_, told = want(t, 75, "y\n", "break", "--pg", low, "rights/a")
	wantText(t, told, "may not see", "pg_read_all_stats", "was not broken")
	exec(t, connect(t, conn), "GRANT pg_read_all_stats TO testrights")
	_, told = want(t, 1, "y\n", "break", "--pg", low, "rights/a")
	wantText(t, told, "GRANT pg_signal_backend TO", "the lock may still be held")
	want(t, 3, "", "status", "--pg", conn, "rights/a")
	if code := holder.finish(""); code != 0 {
		t.Errorf("the holder ended with %d\n%s", code, holder.stderr)
	}
}

func TestServe(t *testing.T) {
	conn := newDatabase(t)
	holder := hold(t, conn, "--label", "served", "serve/a")
	p := start(t, "serve", "--json", "--pg", conn, t.TempDir())
	p.said(p.stdout, "\n")
	at := decode[struct{ URL string }](t, p.stdout.String())
	answer, err := http.Get(at.URL + "api/advisory-locks")
	check(t, err)
	defer answer.Body.Close()
	var report monitor.Report
	check(t, json.NewDecoder(answer.Body).Decode(&report))
	if len(report.Locks) != 1 || report.Locks[0].EntityID != "a" || *report.Locks[0].ApplicationName != "served" || len(report.Locks[0].Next) == 0 {
		t.Errorf("the page has %+v", report.Locks)
	}
	if len(report.Engines) != 2 || !strings.HasPrefix(report.Engines[1].Name, "PostgreSQL, testserve at ") || report.Engines[1].Error != nil {
		t.Errorf("engines: %+v", report.Engines)
	}
	check(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if code := p.finish(""); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.stderr)
	}
	holder.finish("")
}
