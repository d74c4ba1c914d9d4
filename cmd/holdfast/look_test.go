package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

func TestStatus(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		state    lock.State
		evidence lock.Evidence
		code     int
		make     func(path string)
		says     []string
	}{
		{lock.StateFree, lock.EvidenceNoLockFile, exitOK, func(string) {}, nil},
		{lock.StateHeld, lock.EvidenceKernelLockHeld, exitHeld, func(path string) { holdLock(t, path) },
			[]string{"the holder", "since", "pid "}},
		{lock.StateDead, lock.EvidenceKernelLockFree, exitDead, func(path string) { dieHolding(t, path) },
			[]string{"the holder", "takes it over"}},
		{lock.StateUnknown, lock.EvidenceForeignHost, exitUnknown, func(path string) { write(t, path, foreign) },
			[]string{"far away", "elsewhere", "holdfast break -force N0NCE "}},
		{lock.StateUnknown, lock.EvidenceNotALockFile, exitUnknown, func(path string) { write(t, path, "my thesis") },
			[]string{"not known", "move it away"}},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(string(c.evidence), " ", "-"))
		c.make(path)
		before := snapshot(t, dir)
		stdout, stderr := wantCode(t, c.code, "status", path)
		wantText(t, stdout, append(c.says, path+": "+string(c.state), string(c.evidence))...)
		line, _ := wantCode(t, c.code, "status", "-json", path)
		var got lock.Status
		if err := json.Unmarshal([]byte(line), &got); err != nil || strings.Count(line, "\n") != 1 {
			t.Fatalf("%v: %q is not one line of JSON: %v", c.state, line, err)
		}
		if got.Path != path || got.State != c.state || got.Evidence != c.evidence || stderr != "" {
			t.Errorf("got %+v, want %v, %s; standard error: %q", got, c.state, c.evidence, stderr)
		}
		if after := snapshot(t, dir); after != before {
			t.Errorf("%v: looking changed\n%s\nto\n%s", c.state, before, after)
		}
	}
	write(t, filepath.Join(dir, "file"), "")
	_, stderr := wantCode(t, exitError, "status", filepath.Join(dir, "file", "l"))
	wantText(t, stderr, "holdfast: ", "file")
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a/b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]lock.State{}
	path := func(name string, state lock.State) string {
		p := filepath.Join(dir, filepath.FromSlash(name))
		want[p] = state
		return p
	}
	holder := holdLock(t, path("a/b/held", lock.StateHeld))
	dieHolding(t, path("a/dead.lock", lock.StateDead))
	wantCode(t, exitOK, runArgs(t, path("c/free", lock.StateFree), "exit", "0")...)
	write(t, path("c/foreign.lock", lock.StateUnknown), foreign)
	write(t, filepath.Join(dir, "c", "other.txt"), "no lock")
	before := snapshot(t, dir)

	lines, stderr := wantCode(t, exitOK, "list", "-json", dir)
	got := map[string]lock.State{}
	for line := range strings.Lines(lines) {
		var s lock.Status
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got[s.Path] = s.State
	}
	if len(got) != len(want) || stderr != "" {
		t.Errorf("got %v, want %v; standard error: %s", got, want, stderr)
	}
	for path, state := range want {
		if got[path] != state {
			t.Errorf("%s: got %q, want %q", path, got[path], state)
		}
	}

	table, _ := wantCode(t, exitOK, "list", dir)
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if last := rows[len(rows)-1]; last != "4 locks: 1 held, 1 free, 1 dead, 1 unknown" {
		t.Errorf("last line: %s", last)
	}
	column := strings.Index(rows[0], "PATH")
	for _, row := range rows[1 : len(rows)-1] {
		if want[row[column:]] == "" {
			t.Errorf("not aligned: %s", row)
		}
	}
	wantText(t, table, strconv.Itoa(holder.cmd.Process.Pid), "the holder", "far away", string(lock.EvidenceKernelLockHeld))
	if after := snapshot(t, dir); after != before {
		t.Errorf("listing changed\n%s\nto\n%s", before, after)
	}
}

func TestListOfNothing(t *testing.T) {
	dir := t.TempDir()
	_, stderr := wantCode(t, exitError, "list", filepath.Join(dir, "absent"))
	wantText(t, stderr, "absent")
	write(t, filepath.Join(dir, "file"), "")
	_, stderr = wantCode(t, exitError, "list", filepath.Join(dir, "file"))
	wantText(t, stderr, "not a folder")
	stdout, _ := wantCode(t, exitOK, "list", dir)
	wantText(t, stdout, "0 locks")
	// The folder itself may be named by a link.
	write(t, filepath.Join(dir, "a.lock"), foreign)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	stdout, _ = wantCode(t, exitOK, "list", link)
	wantText(t, stdout, "1 lock:")
}

// TestHostileTextsReachNoTerminal: whoever can write a lock file, or name a
// folder, can't write to the terminal of whoever looks.
func TestHostileTextsReachNoTerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "evil\x1b[31m\nholdfast: all is well")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip("this system refuses such names itself: ", err)
	}
	path := filepath.Join(dir, "\u202e.lock")
	evil := "\x1b]0;owned\x07\u202e\u0085\nholdfast: free"
	claim, err := json.Marshal(map[string]any{
		"pid": 42, "created_at": "2999-01-15T10:30:00Z", "cmd": "rm" + evil, "hostname": "host" + evil,
		"boot_id": evil, "nonce": "n" + evil, "mode": evil,
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(claim))
	for _, args := range [][]string{
		{"status", path}, {"list", dir}, {"break", path}, {"break", "-force", "x", path},
		{"run", "-try", path, "--", "true"}, {"run", "-timeout", "1ns", path, "--", "true"},
		{"status", path + "/x"}, {"list", path}, {"doctor", dir}, {"help", "\x1b"}, {"\x1b"}, {"run", path, "\x1b"},
		{"run", filepath.Join(dir, "free"), "--", "no\x1bcommand"},
		{"break", "-force", "n" + evil, path},
	} {
		_, stdout, stderr := holdfast(t, args...)
		wantClean(t, stdout)
		wantClean(t, stderr)
		for line := range strings.Lines(stdout + stderr) {
			if strings.HasPrefix(line, "holdfast: free") || strings.HasPrefix(line, "holdfast: all is well") {
				t.Errorf("%q: a forged message: %s", args, line)
			}
		}
	}
}
