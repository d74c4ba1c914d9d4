package dispatch_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/dispatch"
)

// id is what most tests claim, and other is another one.
const (
	id    = "20260102T030405-abc"
	other = "20260102T030405-xyz"
)

// noSuchPID is beyond all that any kernel gives.
const noSuchPID = 1<<31 - 2

func TestMain(m *testing.M) {
	testkit.Main(m, func(_ string, args []string) { claimAsTold(dispatch.Locks{Dir: args[0]}) })
}

// claimAsTold reads orders from standard input and answers each with a line.
func claimAsTold(locks dispatch.Locks) {
	var claim *dispatch.Claim
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		if orders.Text() == "release" {
			outcome, err := claim.Release()
			fmt.Println(outcome, err)
			continue
		}
		if uid, ok := strings.CutPrefix(orders.Text(), "become "); ok {
			fmt.Println(become(uid))
			continue
		}
		if orders.Text() == "read" { // as other programs do
			data, err := os.ReadFile(lockPath(locks.Dir))
			fmt.Println(len(data) > 0, err)
			continue
		}
		var err error
		if claim, err = locks.Acquire(context.Background(), orders.Text()); err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println("claimed", claim.Nonce)
	}
}

// become makes this process another user's, with a umask that lets nobody in.
var become func(uid string) error

var (
	check    = testkit.Check
	read     = testkit.ReadFile
	that     = testkit.That
	errOf    = testkit.ErrOf
	noErr    = testkit.NoErr
	contains = testkit.Contains
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

// startChild starts another process that claims.
func startChild(t *testing.T, dir string) *testkit.Child { return testkit.Start(t, "claimer", dir) }

// died has a process claim the id, be killed, and be gone. Its claim stays.
func died(t *testing.T, dir string) {
	t.Helper()
	c := startChild(t, dir)
	if said := c.Say(id); !strings.HasPrefix(said, "claimed ") {
		t.Fatal(said)
	}
	c.Kill()
}

// fields are those of a claim of another program.
type fields map[string]any

// foreign returns the fields of a claim that another program made, changed as told;
// a field that is changed to nil is left out.
func foreign(t *testing.T, changes fields) []byte {
	t.Helper()
	host := must(os.Hostname())(t)
	claim := fields{
		"gardenId": id, "pid": noSuchPID, "hostname": host, "createdAt": "2001-02-03T04:05:06.789Z",
		"nonce": "00ff00ff00ff00ff", "owner": "entwurf_v2", "lockPath": "/elsewhere/" + id + ".lock",
	}
	maps.Copy(claim, changes)
	maps.DeleteFunc(claim, func(_ string, value any) bool { return value == nil })
	text := must(json.Marshal(claim))(t)
	return append(text, '\n')
}

// put writes a file, as a whole.
func put(t *testing.T, path string, text []byte) {
	t.Helper()
	check(t, os.WriteFile(path, text, 0o644))
}

// age makes a file one of 2001.
func age(t *testing.T, path string) {
	t.Helper()
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	check(t, os.Chtimes(path, old, old))
}

func lockPath(dir string) string { return filepath.Join(dir, id+".lock") }

func acquire(t *testing.T, dir string) *dispatch.Claim {
	t.Helper()
	return must(dispatch.Locks{Dir: dir}.Acquire(t.Context(), id))(t)
}

func release(t *testing.T, claim *dispatch.Claim, want dispatch.Outcome) {
	t.Helper()
	equal(t, must(claim.Release())(t), want, "release")
}

// conflict is that of an id that is not to be had, on which nothing may be changed.
func conflict(t *testing.T, dir string) *dispatch.ConflictError {
	t.Helper()
	before := contents(t, dir)
	claim, err := dispatch.Locks{Dir: dir}.Acquire(t.Context(), id)
	if err == nil {
		t.Fatalf("the id was had: %+v", claim)
	}
	var conflict *dispatch.ConflictError
	var locked *lock.LockedError
	if !errors.As(err, &conflict) || !errors.As(err, &locked) {
		t.Fatalf("%v is not a conflict", err)
	}
	if conflict.Reason != "target-locked" || conflict.LockPath != lockPath(dir) {
		t.Errorf("reason %q, path %q", conflict.Reason, conflict.LockPath)
	}
	contains(t, conflict.Detail, conflict.LockPath, "the detail does not say where")
	if after := contents(t, dir); after != before {
		t.Errorf("a conflict changed\n%s\nto\n%s", before, after)
	}
	return conflict
}

// taken is that the id of a dead holder is to be had, without litter.
func taken(t *testing.T, dir string) {
	t.Helper()
	claim := acquire(t, dir)
	if text := read(t, lockPath(dir)); !bytes.Contains(text, []byte(claim.Nonce)) || claim.PID != os.Getpid() {
		t.Errorf("claimed %+v; on disk is %s", claim, text)
	}
	release(t, claim, dispatch.OutcomeReleased)
	equal(t, contents(t, dir), "", "left behind")
}

// contents describes all that is in a folder but the files that bear kernel locks.
func contents(t *testing.T, dir string) string {
	t.Helper()
	entries := must(os.ReadDir(dir))(t)
	var all strings.Builder
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".flock") {
			continue
		}
		info := must(e.Info())(t)
		fmt.Fprintln(&all, e.Name(), info.Mode(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			fmt.Fprintf(&all, "\t%q\n", read(t, filepath.Join(dir, e.Name())))
		}
	}
	return all.String()
}
