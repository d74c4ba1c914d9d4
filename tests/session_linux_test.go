package tests

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

// writeSessionVar, if it is set, has TestSession write the session into README.md.
const writeSessionVar = "HOLDFAST_WRITE_SESSION"

// TestSession: the session in README.md is what session.sh prints, but for what differs each
// time: pids, times, and where it runs.
func TestSession(t *testing.T) {
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err == nil {
		sleep, err = filepath.EvalSymlinks(sleep)
	}
	if err != nil || filepath.Base(sleep) != "sleep" {
		t.Skip("needs a sleep(1) that is a program of its own, to be named in the session")
	}
	if fsys, err := platform.FilesystemOf(dir); err != nil || !fsys.Trusted {
		t.Skip("needs a local filesystem, to have children that hold too")
	}
	script := must(filepath.Abs("session.sh"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(errors.Join(ctx.Err(), err), string(out))
	}
	const begin, end = "<!-- session:begin -->\n```console\n", "```\n<!-- session:end -->\n"
	readme := repositoryFile(t, "README.md")
	before, rest, found := strings.Cut(readme, begin)
	shown, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("README.md has no place for it: %q, %q", begin, end)
	}
	said := likeAlways(dir, string(out))
	if said == shown {
		return
	}
	if os.Getenv(writeSessionVar) != "" {
		check(t, os.WriteFile("../README.md", []byte(before+begin+said+end+after), 0o644))
		return
	}
	t.Errorf("README.md shows\n%s\nand session.sh said (write it there with %s=1)\n%s", shown, writeSessionVar, said)
}

// likeAlways gives what a session said with the same pids and times each time, at /srv.
func likeAlways(dir, said string) string {
	said = strings.ReplaceAll(said, dir, "/srv")
	pids := map[string]string{}
	said = regexp.MustCompile(`(pid |process |kill )(\d+)`).ReplaceAllStringFunc(said, func(text string) string {
		word, pid, _ := strings.Cut(text, " ")
		if pids[pid] == "" {
			pids[pid] = strconv.Itoa(4711 + len(pids))
		}
		return word + " " + pids[pid]
	})
	for pattern, always := range map[string]string{
		`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} \(\d+s\)`: "2026-11-22 09:00:00 +0000 (1s)",
		`(: load) \(\d+s\)`:        "$1 (1s)",
		`(fence +)\d{16}`:          "${1}1795338000000000",
		`\d{4}-\d\d-\d\dT[\d:.]+Z`: "2026-11-22T09:00:00Z",
		` on \S+, user \S+:`:       " on vm, user ana:",
	} {
		said = regexp.MustCompile(pattern).ReplaceAllString(said, always)
	}
	return said
}
