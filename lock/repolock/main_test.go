package repolock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

func TestMain(m *testing.M) { testkit.Main(m, func(_ string, args []string) { holder(args[0]) }) }

// holder has the lock at a path until it is killed, or its input ends.
func holder(path string) {
	held, err := lock.File{Path: path, Cmd: "holder"}.TryAcquire(context.Background())
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = held.Release()
}

// What these tests have from testkit.
var (
	check     = testkit.Check
	getFile   = testkit.ReadFile
	putFile   = testkit.PutFile
	isAbsent  = testkit.Absent
	that      = testkit.That
	errOf     = testkit.ErrOf
	noErr     = testkit.NoErr
	wantErr   = testkit.WantErr
	treeState = testkit.TreeState
	sameTree  = testkit.SameTree
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

const patience = testkit.Patience

func asLocked(t *testing.T, err error) *lock.LockedError {
	t.Helper()
	var locked *lock.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("error is %T (%v), want one that wraps *LockedError", err, err)
	}
	return locked
}

// putClaim writes a claim: one of ours if it has a nonce, and otherwise one of another
// program's.
func putClaim(t *testing.T, path string, claim evidence.Claim) {
	t.Helper()
	data, err := json.Marshal(claim)
	if claim.Nonce != "" {
		data, err = claim.Encode(nil)
	}
	check(t, err)
	putFile(t, path, data, time.Time{})
}

func getClaim(t *testing.T, path string) (claim evidence.Claim) {
	t.Helper()
	check(t, json.Unmarshal(getFile(t, path), &claim))
	return claim
}

func sameClaim(a, b evidence.Claim) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) || !a.RenewedAt.Equal(b.RenewedAt) {
		return false
	}
	a.CreatedAt, a.RenewedAt = b.CreatedAt, b.RenewedAt
	return a == b
}
