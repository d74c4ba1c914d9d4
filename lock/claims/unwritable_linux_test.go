package claims_test

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/claims"
)

func init() {
	roles["nobody"] = func(dir string, orders *bufio.Scanner) {
		if err := testkit.BecomeNobody(); err != nil {
			fmt.Println("error:", err)
		}
		agent(dir, orders)
	}
}

// unprivileged starts an agent that is bound by the modes of files, in a folder that
// it can reach.
func unprivileged(t *testing.T) (dir string, a *testkit.Child) {
	t.Helper()
	top := must(os.MkdirTemp("", "claims"))(t)
	t.Cleanup(func() { os.RemoveAll(top) })
	dir = filepath.Join(top, "proof")
	check(t, errors.Join(os.Chmod(top, 0o755), os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)))
	return dir, play(t, "nobody", dir)
}

// TestLocksNotWritable: where the files can't follow, a change stands, and says so;
// the next one that can puts them right.
func TestLocksNotWritable(t *testing.T) {
	dir, a := unprivileged(t)
	locks := filepath.Join(dir, "locks")
	for _, order := range []string{"claim 1 a", "claim 2 a"} {
		if answer := a.Say(order); answer != "ok 0" {
			t.Fatalf("%s: %s", order, answer)
		}
	}
	check(t, os.Chmod(locks, 0o555))
	for _, step := range []struct{ order, want string }{
		{"claim 3 a", "files"},
		{"claim 3 b", "claimed"},
		{"release 1 a", "files"},
		{"look", "ok 0"},
		{"later 5m", "ok 0"},
		{"claim 2 b", "files"}, // reaps the expired one
	} {
		equal(t, a.Say(step.order), step.want, step.order)
	}
	want := []string{"acquired 1 a", "acquired 2 a", "acquired 3 a", "released 1 a", "reaped 2 a", "acquired 2 b"}
	wantStory(t, dir, want...)
	if got := inFiles(t, dir); len(got) != 2 || got["2"].Owner != "a" {
		t.Errorf("files meanwhile: %v", got)
	}
	// The files are as several crashes would have left them. What was released is free.
	check(t, os.Chmod(locks, 0o755))
	equal(t, a.Say("claim 1 b"), "ok 0", "the next claim")
	wantStory(t, dir, append(want, "acquired 1 b")...)
	if got := inFiles(t, dir); !maps.EqualFunc(got, replay(t, dir), same) {
		t.Errorf("files: %v, want %v", got, replay(t, dir))
	}
}

// TestFolderNotWritable: where the ledger can't be written, nothing changes, and the
// claims can be read.
func TestFolderNotWritable(t *testing.T) {
	dir, a := unprivileged(t)
	if answer := a.Say("claim 1 a"); answer != "ok 0" {
		t.Fatal(answer)
	}
	check(t, errors.Join(os.Chmod(filepath.Join(dir, "ledger"), 0o555), os.Chmod(filepath.Join(dir, "locks"), 0o555)))
	for _, order := range []string{"claim 2 a", "release 1 a"} {
		if answer := a.Say(order); !strings.HasPrefix(answer, "error:") {
			t.Errorf("%s: %s", order, answer)
		}
	}
	equal(t, a.Say("look"), "ok 0", "look")
	wantStory(t, dir, "acquired 1 a")
	check(t, os.Chmod(filepath.Join(dir, "locks"), 0))
	if answer := a.Say("look"); !strings.HasPrefix(answer, "error:") {
		t.Errorf("look where the files can't be seen: %s", answer)
	}
}

// TestLocksIsNoFolder: nothing is decided where the files can't be looked at.
func TestLocksIsNoFolder(t *testing.T) {
	dir, _, m := proof(t)
	path := filepath.Join(dir, "locks")
	write(t, path, "")
	_, err := m.Claim(t.Context(), "1", "a")
	if err == nil || !strings.Contains(err.Error(), path) || errors.Is(err, claims.ErrFiles) || len(events(t, dir)) > 0 {
		t.Errorf("%v, %d events", err, len(events(t, dir)))
	}
	check(t, errors.Join(os.Remove(path), os.Symlink("nowhere", path)))
	wantErr(t, errOf(m.Claim(t.Context(), "1", "a")), claims.ErrFiles, "locks leads nowhere")
}
