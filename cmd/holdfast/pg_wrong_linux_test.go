package main

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestWrongUse is told, and nothing is run, nor any part of a connection string shown.
func TestWrongUse(t *testing.T) {
	conn := server.Conn()
	for _, c := range []struct {
		args []string
		told string
	}{
		{[]string{"run", "--pg", conn, "deploy.lock", "--", "echo", "ran"}, "LOCK is SPACE/NAME"},
		{[]string{"run", "--pg", conn, "a/", "--", "echo", "ran"}, "LOCK is SPACE/NAME"},
		{[]string{"run", "--pg", conn, "/a", "--", "echo", "ran"}, "LOCK is SPACE/NAME"},
		{[]string{"run", "--pg", conn, "#/x", "--", "echo", "ran"}, "want a number"},
		{[]string{"run", "--pg", conn, "a/" + strings.Repeat("x", 2000), "--", "echo", "ran"}, "invalid name"},
		{[]string{"run", "--pg", conn, "--also", "a/b", "a/b", "--", "echo", "ran"}, "in the set twice"},
		{[]string{"run", "--pg", conn, "--close", "a/b", "--", "echo", "ran"}, "--close is for lock files"},
		{[]string{"run", "--pg", conn, "--stale-after", "1h", "a/b", "--", "echo", "ran"}, "--stale-after is for lock files"},
		{[]string{"run", "--pg", conn, "--mode", "660", "a/b", "--", "echo", "ran"}, "--mode is for lock files"},
		{[]string{"run", "--pg", conn, "--require-kernel-lock", "a/b", "--", "echo", "ran"}, "--require-kernel-lock is for lock files"},
		{[]string{"run", "--pg", conn, "--", "--", "echo", "ran"}, "LOCK is missing"},
		{[]string{"status", "--pg", conn, "deploy.lock"}, "LOCK is SPACE/NAME"},
		{[]string{"status", "--pg", conn, "#/x"}, "want a number"},
		{[]string{"status", "--pg", conn}, "LOCK is missing"},
		{[]string{"break", "--pg", conn, "deploy.lock"}, "LOCK is SPACE/NAME"},
		{[]string{"list", "--pg", conn, "."}, "there is no DIR"},
		{[]string{"doctor", "--pg", conn, "."}, "unknown flag --pg"},
		{[]string{"list", "--pg", "host=a passwrod"}, "the connection string can't be read"},
		{[]string{"list", "--pg", "host=a port=x"}, "invalid port"},
		{[]string{"list", "--pg", "host=a password='s3cret"}, "can't be read"},
		{[]string{"list", "--pg", "host=a port=x password=s3cret"}, "can't be read"},
		{[]string{"list", "--pg", "postgres://u:s3cret@h:x/d"}, "can't be read"},
		{[]string{"list", "--pg", "postgres://u:s3%cret@h/d"}, "can't be read"},
		{[]string{"list", "--pg", "postgres://u:p@s3cret@h/d"}, "%40"},
		{[]string{"list", "--pg", "postgres://h/d password=s3cret"}, "can't be read"},
		{[]string{"list", "--pg", "host=h dbname='d password=s3cret'"}, "can't be right"},
	} {
		out, told := want(t, 64, "", c.args...)
		wantText(t, told, c.told)
		if strings.Contains(out+told, "s3cret") || strings.Contains(out, "ran") {
			t.Errorf("holdfast %q: %s%s", c.args, out, told)
		}
	}
}

// TestNoServer is not taken for a lock that is held, or free.
func TestNoServer(t *testing.T) {
	conn := fmt.Sprintf("host=%s user=u dbname=d password=s3cret", t.TempDir())
	for _, args := range [][]string{
		{"run", "--pg", conn, "a/b", "--", "echo", "ran"}, {"status", "--pg", conn, "a/b"}, {"status", "--json", "--pg", conn, "a/b"},
		{"list", "--pg", conn}, {"break", "--pg", conn, "a/b"}, {"serve", "--pg", conn},
	} {
		out, told := want(t, 1, "", args...)
		wantText(t, told, "failed to connect")
		if strings.Contains(told, "s3cret") || out != "" {
			t.Errorf("holdfast %q: %s%s", args, out, told)
		}
	}
}

// TestPassword: one that the server refuses is not shown.
func TestPassword(t *testing.T) {
	exec(t, connect(t, server.Conn()), "CREATE ROLE nobodys")
	conn := strings.Replace(server.Conn(), "user=holdfast", "user=nobodys password=s3cret", 1)
	_, told := want(t, 1, "", "status", "--pg", conn, "a/b")
	wantText(t, told, "not permitted to log in")
	if strings.Contains(told, "s3cret") {
		t.Error(told)
	}
}

// TestRecipes runs what README and help show of --pg, as it is pasted, where "db" is this
// server.
func TestRecipes(t *testing.T) {
	dir := t.TempDir()
	exe := testkit.Command(t, theCommand).Path
	check(t, os.WriteFile(filepath.Join(dir, "holdfast"), []byte("#!/bin/sh\nexec "+exe+" \"$@\"\n"), 0o700))
	for _, name := range []string{"deploy", "deploy.sh"} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
	}
	readme, err := os.ReadFile("../../README.md")
	check(t, err)
	help, _ := want(t, 0, "", "help")
	more, _ := want(t, 0, "", "help", "status")
	recipes := regexp.MustCompile(`(?m)^ +(.*holdfast \w+ --pg .*)$`).FindAllStringSubmatch(string(readme)+help+more, -1)
	if len(recipes) < 3 {
		t.Fatalf("found only %q", recipes)
	}
	host := strings.TrimPrefix(strings.Fields(server.Conn())[0], "host=")
	here := strings.NewReplacer("host=db dbname=app", server.Conn(), "postgres://db/app", "'postgres:///postgres?user=holdfast&host="+host+"'",
		"PGSERVICE=app", "PGDATABASE=postgres PGUSER=holdfast PGHOST="+host)
	for _, r := range recipes {
		recipe := here.Replace(r[1])
		cmd := testkit.Command(t, theCommand)
		shell := osexec.Command("sh", "-c", recipe)
		shell.Dir, shell.Env = dir, append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
		if out, err := shell.CombinedOutput(); err != nil {
			t.Errorf("%s\n%v\n%s", recipe, err, out)
		}
	}
}

// TestEnvironment: --pg "" goes by PGHOST and its like.
func TestEnvironment(t *testing.T) {
	var env []string
	for _, pair := range strings.Fields(server.Conn()) {
		name, value, _ := strings.Cut(pair, "=")
		env = append(env, "PG"+map[string]string{"host": "HOST", "port": "PORT", "user": "USER", "dbname": "DATABASE", "sslmode": "SSLMODE"}[name]+"="+value)
	}
	p := startIn(t, append(env, "PGAPPNAME=by name"), "run", "--pg", "", "env/here", "--", "sh", "-c", "echo ready; cat")
	p.said(p.stdout, "ready")
	out, _ := want(t, 3, "", "status", "--pg", server.Conn(), "env/here")
	wantText(t, out, "by name")
	p.finish("")
	p = startIn(t, []string{"PGSERVICE=nowhere", "PGSERVICEFILE=/dev/null"}, "list", "--pg", "")
	if code := p.finish(""); code != 64 || !strings.Contains(p.stderr.String(), "unable to find service: nowhere") {
		t.Errorf("exit code %d\n%s", code, p.stderr)
	}
}
