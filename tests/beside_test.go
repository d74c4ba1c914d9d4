package tests

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// besideBlock returns a block of BESIDE.md, by how it is marked.
func besideBlock(t *testing.T, mark string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)\n```" + regexp.QuoteMeta(mark) + "\n(.*?)```").FindStringSubmatch(repositoryFile(t, "BESIDE.md"))
	if m == nil {
		t.Fatalf("BESIDE.md has no block %q", mark)
	}
	return m[1]
}

// besides are the programs that BESIDE.md says may stand beside holdfast. Each prepares a
// folder, and returns a command there that runs deploy.sh (or so) under the lock; or else
// how a test calls it.
var besides = []struct {
	name, needs string
	lock        string
	script      string // what is run under the lock
	command     func(t *testing.T, dir string) *exec.Cmd
}{
	{"flock(1)", "flock", "deploy.lock", "deploy.sh", func(t *testing.T, dir string) *exec.Cmd {
		return exec.Command("sh", "-c", besideBlock(t, "sh flock"))
	}},
	{"python", "python3", "deploy.lock", "deploy.sh", func(t *testing.T, dir string) *exec.Cmd {
		return exec.Command("python3", "-c", besideBlock(t, "python"))
	}},
	{"filelock", "python3", "deploy.lock", "deploy.sh", func(t *testing.T, dir string) *exec.Cmd {
		script := must(filepath.Abs(filepath.Join("testdata", "filelock.py")))(t)
		return exec.Command("python3", script, "deploy.lock.flock", "./deploy.sh")
	}},
	{"filelock before 3.30", "python3", "deploy.lock", "deploy.sh", func(t *testing.T, dir string) *exec.Cmd {
		script := must(filepath.Abs(filepath.Join("testdata", "filelock_old.py")))(t)
		return exec.Command("python3", script, "deploy.lock.flock", "./deploy.sh")
	}},
	{"make", "make", ".deploy.lock", "deploy.sh", func(t *testing.T, dir string) *exec.Cmd {
		check(t, os.WriteFile(filepath.Join(dir, "Makefile"), []byte(besideBlock(t, "make")), 0o600))
		return exec.Command("make", "deploy")
	}},
	{"git hook", "git", ".git/pre-push.lock", "check.sh", func(t *testing.T, dir string) *exec.Cmd {
		git := func(args ...string) {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		git("init", "-q", "-b", "main", ".")
		git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
		git("init", "-q", "--bare", "remote")
		check(t, os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o700))
		check(t, os.WriteFile(filepath.Join(dir, ".git", "hooks", "pre-push"), []byte(besideBlock(t, "sh hook")), 0o700))
		return exec.Command("git", "push", "-q", "./remote", "main")
	}},
}

// TestBeside: what BESIDE.md shows, as it stands there, waits for a holder of the lock, and
// is waited for.
func TestBeside(t *testing.T) {
	for _, b := range besides {
		t.Run(b.name, func(t *testing.T) {
			for _, need := range []string{"sh", b.needs} {
				if _, err := exec.LookPath(need); err != nil {
					t.Skipf("needs %s, to run it beside", need)
				}
			}
			dir := t.TempDir()
			// It says that it runs, goes on until it is told to end, and fails beside a holder.
			check(t, os.WriteFile(filepath.Join(dir, b.script),
				[]byte("#!/bin/sh\n[ ! -e held ] || exit 1\n: >runs\nwhile [ ! -e end ]; do sleep 0.01; done\nrm runs\n"), 0o700))
			runs := filepath.Join(dir, "runs")
			begin := func() *exec.Cmd {
				cmd := b.command(t, dir)
				cmd.Dir = dir
				return background(t, cmd)
			}
			f := lock.File{Path: filepath.Join(dir, b.lock)}

			cmd := begin()
			eventually(t, "it runs", func() bool { return exists(runs) })
			if held, err := f.TryAcquire(t.Context()); err == nil {
				t.Error("a second holder got in: ", held.Release())
			}
			came := make(chan error, 1)
			go func() {
				held, err := f.Acquire(context.Background())
				if err == nil {
					that(t, !exists(runs), "a second holder got in")
					err = held.Release()
				}
				came <- err
			}()
			check(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
			noErr(t, cmd.Wait())
			check(t, <-came)

			if b.needs == "git" {
				return // there is nothing more to push
			}
			held := must(f.TryAcquire(t.Context()))(t)
			heldFile := filepath.Join(dir, "held")
			check(t, os.WriteFile(heldFile, nil, 0o600))
			cmd = begin()
			if !strings.HasPrefix(b.name, "filelock") { // which only looks from time to time
				eventually(t, "it waits", func() bool {
					for s, err := range lock.List(t.Context(), filepath.Dir(f.Path)) {
						if err == nil && s.Path == f.Path && len(s.Waiters) > 0 {
							return true
						}
					}
					return false
				})
			}
			check(t, errors.Join(os.Remove(heldFile), held.Release()))
			noErr(t, cmd.Wait())
		})
	}
}

// TestBeside_GofrsFlock: the library on the file of the queue.
func TestBeside_GofrsFlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deploy.lock")
	f, other := lock.File{Path: path}, flock.New(path+".flock")
	held, err := f.TryAcquire(t.Context())
	check(t, err)
	if had, err := other.TryLock(); had || err != nil {
		t.Errorf("beside a holder: %v, %v", had, err)
	}
	check(t, held.Release())
	check(t, other.Lock())
	if held, err := f.TryAcquire(t.Context()); err == nil {
		t.Error("a second holder got in: ", held.Release())
	}
	check(t, other.Unlock())
	if held, err = f.TryAcquire(t.Context()); err == nil {
		err = held.Release()
	}
	check(t, err)
}

// TestBeside_SoftLock: what BESIDE.md says of filelock's soft locks. A file as they write it is no
// claim; and a claim is no file that they can parse, which is two or three lines.
func TestBeside_SoftLock(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), "deploy.lock")}
	for _, theirs := range []string{"4242\nhost\n", "4242\nhost\n1234567\n", "filelock/2\npid=4242\nhost=host\nmode=exclusive\n"} {
		check(t, os.WriteFile(f.Path, []byte(theirs), 0o644))
		long := time.Now().Add(-1000 * time.Hour)
		check(t, os.Chtimes(f.Path, long, long))
		if held, err := f.TryAcquire(t.Context()); err == nil {
			t.Errorf("%q: taken over, though nothing says that its maker is dead: %v", theirs, held.Release())
		}
		if s, err := f.Inspect(t.Context()); err != nil || s.Evidence != evidence.NotALockFile {
			t.Errorf("%q: %+v, %v", theirs, s, err)
		}
		aged := f
		aged.StaleAfter = time.Hour
		held := must(aged.TryAcquire(t.Context()))(t)
		ours := must(os.ReadFile(f.Path))(t)
		if lines := strings.Count(strings.TrimSpace(string(ours)), "\n") + 1; lines == 2 || lines == 3 {
			t.Errorf("a claim has %d lines: what BESIDE.md says of soft locks needs another look", lines)
		}
		check(t, held.Release())
	}
}

// TestBeside_Cron: the job of the line is skipped, without an error, while it runs.
func TestBeside_Cron(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh, to run the line")
	}
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "job.sh"), []byte("#!/bin/sh\necho ran\n"), 0o700))
	_, line, _ := strings.Cut(besideBlock(t, "sh cron"), "* holdfast")
	job := func() string {
		cmd := exec.Command("sh", "-c", "holdfast"+line)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out := must(cmd.CombinedOutput())(t)
		return string(out)
	}
	held := must(lock.File{Path: filepath.Join(dir, "job.lock")}.TryAcquire(t.Context()))(t)
	equal(t, job(), "", "while it is held")
	check(t, held.Release())
	equal(t, job(), "ran\n", "while it is free")
}
