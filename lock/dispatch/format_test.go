package dispatch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/dispatch"
)

// TestJSON: a Claim and a ConflictError are, as JSON, what other programs' are, name by
// name.
func TestJSON(t *testing.T) {
	claim := &dispatch.Claim{
		GardenID: id, PID: 4242, Hostname: "host", CreatedAt: "2026-01-02T03:04:05.678Z",
		Nonce: "00ff00ff00ff00ff", Owner: dispatch.Owner, LockPath: "/locks/" + id + ".lock",
	}
	conflict := dispatch.ConflictError{Reason: dispatch.TargetLocked, LockPath: claim.LockPath, Holder: claim, Detail: "held by pid 4242"}
	unknown := conflict
	unknown.Holder = nil
	got, err := json.MarshalIndent(map[string]any{"claim": claim, "conflict": conflict, "conflict without holder": &unknown}, "", "\t")
	check(t, err)
	if want := read(t, filepath.Join("testdata", "claim.json")); string(got)+"\n" != string(want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestClaim_OnDisk: the lock file has every field that other programs ask for, of the
// right kind, and says what Acquire has returned.
func TestClaim_OnDisk(t *testing.T) { // guards: O1
	dir := t.TempDir()
	claim := acquire(t, dir)
	defer claim.Release()
	text := read(t, lockPath(dir))
	var onDisk map[string]any
	check(t, json.Unmarshal(text, &onDisk))
	host := must(os.Hostname())(t)
	for name, want := range map[string]any{
		"gardenId": id, "pid": float64(os.Getpid()), "hostname": host, "createdAt": claim.CreatedAt,
		"nonce": claim.Nonce, "owner": "entwurf_v2", "lockPath": lockPath(dir),
	} {
		equal(t, onDisk[name], want, name)
	}
	equal(t, text[len(text)-1], '\n', "no newline at the end")
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(claim.CreatedAt) {
		t.Errorf("createdAt is %q", claim.CreatedAt)
	}
	at, err1 := time.Parse(time.RFC3339, claim.CreatedAt)
	created, err2 := time.Parse(time.RFC3339, fmt.Sprint(onDisk["created_at"]))
	if err1 != nil || err2 != nil || !at.Equal(created.Truncate(time.Millisecond)) {
		t.Errorf("createdAt is %q, created_at %v (%v, %v)", claim.CreatedAt, onDisk["created_at"], err1, err2)
	}
	if c := conflict(t, dir); c.Holder == nil || c.Holder.Nonce != claim.Nonce || c.Holder.CreatedAt != claim.CreatedAt {
		t.Errorf("a conflict shows %+v", c.Holder)
	}
}

// TestClaim_NonceUnique: each claim has a nonce of its own.
func TestClaim_NonceUnique(t *testing.T) {
	dir := t.TempDir()
	seen := map[string]bool{}
	for range 100 {
		claim := acquire(t, dir)
		if len(claim.Nonce) < 16 || seen[claim.Nonce] {
			t.Fatalf("nonce %q", claim.Nonce)
		}
		seen[claim.Nonce] = true
		release(t, claim, dispatch.OutcomeReleased)
	}
}

// TestDefaultDir: it is entwurf's, below the user's home, and made when it is missing.
func TestDefaultDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home) // Windows
	if claim, err := (dispatch.Locks{}).Acquire(t.Context(), id); !errors.Is(err, lock.ErrInvalidName) {
		t.Errorf("without a folder: %v, %v", claim, err)
	}
	dir := must(dispatch.DefaultDir())(t)
	if made, err := os.ReadDir(home); err != nil || len(made) != 0 {
		t.Errorf("before anything was claimed there are %v (%v)", made, err)
	}
	// The folder that it is in need not be there either.
	claim := must(dispatch.Locks{Dir: dir}.Acquire(t.Context(), id))(t)
	equal(t, claim.LockPath, filepath.Join(home, ".pi", "entwurf-v2-locks", id+".lock"), "lock path")
	release(t, claim, dispatch.OutcomeReleased)
}
