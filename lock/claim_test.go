package lock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// Helpers of these tests, used by the other files too.

func asLocked(t *testing.T, err error) *lock.LockedError {
	t.Helper()
	var locked *lock.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("error is %T (%v), want *LockedError", err, err)
	}
	return locked
}

func tryHold(t *testing.T, f lock.File) *lock.FileHold {
	t.Helper()
	return must(f.TryAcquire(context.Background()))(t)
}

func letGo(t *testing.T, held *lock.FileHold) {
	t.Helper()
	check(t, held.Release())
}

func inspect(t *testing.T, f lock.File) lock.Status {
	t.Helper()
	return must(f.Inspect(t.Context()))(t)
}

func wantStatus(t *testing.T, s lock.Status, state evidence.State, by evidence.Evidence) {
	t.Helper()
	that(t, s.State == state && s.Evidence == by, "%+v; want %s: %s", s, state, by)
}

// putSibling makes the sibling of a lock file, as a holder would.
func putSibling(t *testing.T, path, content string) {
	t.Helper()
	check(t, makeMarked(path+".flock"))
	putFile(t, path+".flock", []byte(content), time.Time{})
}

// putClaim writes a claim: one of ours if it has a nonce, and otherwise one of another
// program's.
func putClaim(t *testing.T, path string, claim evidence.Claim) []byte {
	t.Helper()
	data, err := json.Marshal(claim)
	if claim.Nonce != "" {
		data, err = claim.Encode(nil)
	}
	check(t, err)
	putFile(t, path, data, time.Time{})
	return data
}

func getClaim(t *testing.T, path string) evidence.Claim {
	t.Helper()
	var claim evidence.Claim
	check(t, json.Unmarshal(getFile(t, path), &claim))
	return claim
}

// ownClaim is a whole claim of this process.
func ownClaim(t *testing.T) evidence.Claim {
	t.Helper()
	held := tryHold(t, lock.File{Path: filepath.Join(t.TempDir(), "lock")})
	defer letGo(t, held)
	return held.Info()
}

// formerClaim is a claim that is proven dead by the process alone: this process's
// pid, in an earlier life.
func formerClaim(t *testing.T) evidence.Claim {
	t.Helper()
	claim := ownClaim(t)
	if claim.Start == 0 {
		t.Skip("needs a system that tells when a process started")
	}
	claim.Start++
	claim.PIDFD++
	claim.KernelLock = ""
	claim.Nonce = "DEAD"
	return claim
}

// kindOf is the name of the filesystem that a file lies on.
func kindOf(t *testing.T, path string) string {
	t.Helper()
	fsys := must(platform.FilesystemOf(path))(t)
	return fsys.Kind
}

func sameClaim(a, b evidence.Claim) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) || !a.RenewedAt.Equal(b.RenewedAt) {
		return false
	}
	a.CreatedAt, a.RenewedAt = b.CreatedAt, b.RenewedAt
	return a == b
}

// goldenClaim reads a claim that the format must never lose.
func goldenClaim(t testing.TB, name string) []byte {
	t.Helper()
	return must(os.ReadFile(filepath.Join("evidence", "testdata", name)))(t)
}

func TestClaim_OnDiskAfterAcquire(t *testing.T) { // guards: S6
	path := filepath.Join(t.TempDir(), "lock")
	before := time.Now()
	held := tryHold(t, lock.File{Path: path, Cmd: `push "quoted" <b>`})
	defer held.Release()
	after := time.Now()

	info := must(os.Lstat(path))(t)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("lock file has mode %v, want 0600", info.Mode())
	}
	if sibling, err := os.Lstat(path + ".flock"); err != nil {
		t.Error(err)
	} else if runtime.GOOS != "windows" && sibling.Mode().Perm() != 0o600 {
		t.Errorf("sibling has mode %v, want 0600", sibling.Mode())
	} else if platform.KeepsMarks && runtime.GOOS != "windows" && (info.Mode()&fs.ModeSticky == 0 || sibling.Mode()&fs.ModeSticky == 0) {
		t.Errorf("marks are missing: %v, %v", info.Mode(), sibling.Mode())
	}
	data := getFile(t, path)
	claim, err := evidence.Decode(data)
	check(t, err, data)
	if !sameClaim(claim.Claim, held.Info()) {
		t.Errorf("on disk\n%+v, Info says\n%+v", claim.Claim, held.Info())
	}
	if encoded, _ := claim.Encode(nil); !bytes.Equal(encoded, data) {
		t.Errorf("on disk %q, want %q", data, encoded)
	}
	that(t, claim.PID == os.Getpid() && claim.Cmd == `push "quoted" <b>` && len(claim.Nonce) >= 20, "claim is %+v", claim)
	if claim.CreatedAt.Before(before.Round(0)) || claim.CreatedAt.After(after.Round(0)) {
		t.Errorf("created_at is %s, not from %s to %s", claim.CreatedAt, before, after)
	}
	locked := path
	if !platform.OwnLocks {
		locked += ".flock"
	}
	id := must(platform.IdentifyFile(locked))(t)
	equal(t, claim.KernelLock, fmt.Sprintf("%s:%d:%d", kindOf(t, path), id.Dev, id.Ino), "kernel_lock")
	isAbsent(t, path+".reclaim")
}

func TestClaim_NonceIsUnique(t *testing.T) {
	file := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
	seen := map[string]bool{}
	for range 50 {
		held := tryHold(t, file)
		seen[held.Info().Nonce] = true
		letGo(t, held)
	}
	if len(seen) != 50 {
		t.Errorf("50 holders had %d nonces", len(seen))
	}
}

// TestClaim_CmdTooLong: a claim that readers would take for something else is
// refused before anything is written.
func TestClaim_CmdTooLong(t *testing.T) {
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, "lock"), Cmd: strings.Repeat("x", evidence.MaxCmd+1)}
	if _, err := file.TryAcquire(context.Background()); !errors.Is(err, lock.ErrInvalidName) {
		t.Fatalf("error is %v, want ErrInvalidName", err)
	}
	for name := range treeState(t, dir, ".") {
		t.Errorf("%s was written", name)
	}
	file.Cmd = strings.Repeat("\x01", evidence.MaxCmd) // six bytes each in JSON
	held := tryHold(t, file)
	defer letGo(t, held)
	if got := getClaim(t, file.Path); got.Cmd != file.Cmd {
		t.Errorf("cmd of %d bytes was kept as %d", len(file.Cmd), len(got.Cmd))
	}
	if l := asLocked(t, second(file.TryAcquire(context.Background()))); l.Info == nil {
		t.Error("a claim of the greatest size can't be read")
	}
}
