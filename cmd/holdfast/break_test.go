package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

func nonceOf(t *testing.T, path string) string {
	t.Helper()
	_, line, _ := holdfast(t, "status", "-json", path)
	var s lock.Status
	if err := json.Unmarshal([]byte(line), &s); err != nil || s.Info == nil {
		t.Fatalf("no holder in %q: %v", line, err)
	}
	return s.Info.Nonce
}

func wantFile(t *testing.T, path string, want bool) {
	t.Helper()
	if _, err := os.Lstat(path); (err == nil) != want {
		t.Errorf("%s: %v; want it there: %v", path, err, want)
	}
}

func TestBreakOnlyTheDead(t *testing.T) {
	dir := t.TempDir()
	free := filepath.Join(dir, "free")
	stdout, _ := wantCode(t, exitOK, "break", free)
	wantText(t, stdout, "free")
	stdout, _ = wantCode(t, exitOK, "break", "-force", "ABC", free)
	wantText(t, stdout, "free")

	dead := filepath.Join(dir, "dead")
	dieHolding(t, dead)
	stdout, _ = wantCode(t, exitOK, "break", dead)
	wantText(t, stdout, "removed", "the holder", string(lock.EvidenceKernelLockFree))
	wantFile(t, dead, false)

	alive := filepath.Join(dir, "alive")
	holder := holdLock(t, alive)
	_, stderr := wantCode(t, exitNotHad, "break", alive)
	wantText(t, stderr, "not broken", "the holder", string(lock.EvidenceKernelLockHeld), "end that process")
	wantNoText(t, stderr, "-force")
	wantFile(t, alive, true)
	if code, _, stderr := holder.finish(); code != 0 {
		t.Errorf("the holder ended with %d: %s", code, stderr)
	}

	unknown := filepath.Join(dir, "unknown")
	write(t, unknown, foreign)
	_, stderr = wantCode(t, exitNotHad, "break", unknown)
	wantText(t, stderr, "not broken", "far away", string(lock.EvidenceForeignHost), "-force N0NCE")
	wantFile(t, unknown, true)
}

func TestBreakForceWantsTheNonce(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	write(t, path, foreign)
	_, stderr := wantCode(t, exitNotHad, "break", "-force", "WRONG", path)
	wantText(t, stderr, "another nonce", "far away")
	wantFile(t, path, true)
	stdout, _ := wantCode(t, exitOK, "break", "-force", "N0NCE", path)
	wantText(t, stdout, "removed", "far away", string(lock.EvidenceForeignHost))
	wantFile(t, path, false)

	// A claim without nonce can't be named.
	write(t, path, `{"pid":42,"created_at":"2999-01-15T10:30:00Z","hostname":"elsewhere"}`)
	_, stderr = wantCode(t, exitNotHad, "break", "-force", "N0NCE", path)
	wantText(t, stderr, "another nonce", "by hand")
	wantFile(t, path, true)
}

// TestBreakJSON: what was there, in the words of status, and whether it is gone.
func TestBreakJSON(t *testing.T) {
	dir := t.TempDir()
	free, dead, alive := filepath.Join(dir, "free"), filepath.Join(dir, "dead"), filepath.Join(dir, "alive")
	dieHolding(t, dead)
	holdLock(t, alive)
	unknown, other := filepath.Join(dir, "unknown"), filepath.Join(dir, "other")
	write(t, unknown, foreign)
	write(t, other, foreign)
	for _, c := range []struct {
		code    int
		args    []string
		removed bool
	}{
		{exitOK, []string{free}, false},
		{exitOK, []string{dead}, true},
		{exitNotHad, []string{alive}, false},
		{exitNotHad, []string{unknown}, false},
		{exitNotHad, []string{"-force", "WRONG", unknown}, false},
		{exitOK, []string{"-force", "N0NCE", other}, true},
	} {
		path := c.args[len(c.args)-1]
		_, line, _ := holdfast(t, "status", "-json", path)
		var want, got map[string]any
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		want["removed"] = c.removed
		stdout, stderr := wantCode(t, c.code, append([]string{"break", "-json"}, c.args...)...)
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %s (%v), want %v", c.args, stdout, err, want)
		}
		if c.code == exitOK && stderr != "" {
			t.Errorf("%q: standard error: %s", c.args, stderr)
		}
	}
}

// TestBreakForceOfLivingHolder: whoever has the kernel lock can't be broken.
func TestBreakForceOfLivingHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	holder := holdLock(t, path)
	_, stderr := wantCode(t, exitNotHad, "break", "-force", nonceOf(t, path), path)
	wantText(t, stderr, "not broken", string(lock.EvidenceKernelLockHeld), "end that process")
	wantFile(t, path, true)
	if code, _, stderr := holder.finish(); code != 0 {
		t.Errorf("the holder ended with %d: %s", code, stderr)
	}
}

// TestRunLost: a command that succeeds, though its lock file was removed by a hand, has
// not succeeded under its lock; and nobody got in.
func TestRunLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	holder := holdLock(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantCode(t, exitNotHad, append([]string{"run", "-try", path, "--"}, role(t, "exit", "0")...)...)
	if _, err := platform.ListKernelLocks(); err == nil { // it takes the kernel's list to know without a lock file
		wantCode(t, exitHeld, "status", path)
	}
	code, _, stderr := holder.finish()
	if code != exitLost {
		t.Errorf("the holder ended with %d, want %d", code, exitLost)
	}
	wantText(t, stderr, "lost "+path)
}
