//go:build linux

package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestHostile_LockPath: what is no file is somebody else's lock, whatever its age,
// and whatever the caller thinks of age.
func TestHostile_LockPath(t *testing.T) { // guards: H1
	for what := range intruders {
		for mode, in := range modes {
			t.Run(what+", "+mode, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "lock")
				put(t, what, path)
				for _, file := range []lock.File{
					{Path: path},
					lock.File{Path: path, StaleAfter: 1}.WithClock(func() time.Time { return time.Now().Add(10_000 * time.Hour) }),
					lock.File{Path: path}.WithPIDAlive(func(int) bool { return false }),
				} {
					file = in(file)
					untouched(t, dir, func() {
						_, err := file.TryAcquire(context.Background())
						if l := asLocked(t, err); l.Evidence != evidence.NotALockFile || l.Info != nil || l.Path != path {
							t.Errorf("TryAcquire: %+v", l)
						}
						status, err := file.Inspect(context.Background())
						if err != nil || status.State != evidence.Unknown || status.Evidence != evidence.NotALockFile {
							t.Errorf("Inspect: %+v, %v", status, err)
						}
						_, err = file.Break(context.Background())
						asLocked(t, err)
						_, err = file.BreakForce(context.Background(), "x")
						asLocked(t, err)
						ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
						defer cancel()
						if _, err = file.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Acquire: %v, want to wait for it", err)
						}
					})
				}
			})
		}
	}
}

// TestHostile_HugeFile: a gigabyte is not read, and not deleted.
func TestHostile_HugeFile(t *testing.T) { // guards: H2
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "lock")
			old := time.Now().Add(-10_000 * time.Hour)
			// It begins like a claim of the dead.
			putFile(t, path, []byte(`{"pid":2147483647,"created_at":"2020-01-02T03:04:05Z"}`), time.Time{})
			check(t, os.Truncate(path, 1<<30))
			check(t, os.Chtimes(path, old, old))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, file := range []lock.File{{Path: path}, {Path: path, StaleAfter: time.Hour}} {
				untouched(t, dir, func() {
					_, err := in(file).TryAcquire(context.Background())
					equal(t, asLocked(t, err).Evidence, evidence.NotALockFile)
				})
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
				t.Errorf("allocated %d bytes", n)
			}
		})
	}
}

// TestHostile_SizeLimit: a claim is read up to 64 KiB, and no further.
func TestHostile_SizeLimit(t *testing.T) { // guards: H2
	claim := `{"pid":2147483647,"created_at":"2020-01-02T03:04:05Z"}`
	for _, test := range []struct {
		size int
		had  bool
	}{{evidence.MaxClaim, true}, {evidence.MaxClaim + 1, false}} {
		path := filepath.Join(t.TempDir(), "lock")
		putFile(t, path, []byte(claim+strings.Repeat(" ", test.size-len(claim))), time.Time{})
		held, err := lock.File{Path: path}.TryAcquire(context.Background())
		if test.had && err != nil {
			t.Errorf("%d bytes: %v", test.size, err)
		} else if !test.had {
			asLocked(t, err)
		}
		if err == nil {
			letGo(t, held)
		}
	}
}

// TestHostile_Content: what can't be a claim proves nothing. It is not a holder
// that is dead, nor one that has a pid or a time.
func TestHostile_Content(t *testing.T) { // guards: H2
	for name, content := range testkit.NotClaims {
		for mode, in := range modes {
			if name == "NUL bytes" && mode == "kernel lock" {
				continue // they do prove something: see TestEvidence_OnDisk
			}
			t.Run(name+", "+mode, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "lock")
				putFile(t, path, []byte(content), time.Time{})
				for _, file := range []lock.File{{Path: path}, {Path: path, StaleAfter: time.Hour}, {Path: path, StaleAfter: -1}} {
					file = in(file.WithPIDAlive(func(int) bool { return false }))
					untouched(t, dir, func() {
						_, err := file.TryAcquire(context.Background())
						if l := asLocked(t, err); l.State != evidence.Unknown || l.Info != nil {
							t.Errorf("%+v", l)
						}
						status, err := file.Inspect(context.Background())
						that(t, err == nil && status.State == evidence.Unknown && status.Info == nil, "%+v, %v", status, err)
					})
				}
			})
		}
	}
}

// TestHostile_DataByMistake: a path that leads to somebody's data. Nobody said
// that age counts, so no age is enough.
func TestHostile_DataByMistake(t *testing.T) { // guards: E7, O3
	old := time.Now().Add(-10_000 * time.Hour) // before the machine started, too
	for name, content := range map[string]string{
		"data.json":   `{"users":[{"id":1,"name":"ana"}]}` + "\n",
		"state.json":  `{"pid":4242,"started":"2020-01-02T03:04:05Z"}`,
		"array.json":  `[1,2,3]`,
		"notes.txt":   "to do\n",
		"main.go":     "package main\n",
		"program":     "\x7fELF\x02\x01\x01\x00",
		"server.pid":  "4242\n",
		"one newline": "\n",
		"one byte":    "0",
	} {
		for mode, in := range modes {
			t.Run(name+", "+mode, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "lock")
				putFile(t, path, []byte(content), old)
				file := in(lock.File{Path: path})
				untouched(t, dir, func() {
					_, err := file.TryAcquire(context.Background())
					if l := asLocked(t, err); l.Evidence != evidence.NotALockFile || l.Info != nil {
						t.Errorf("%+v", l)
					}
					ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
					defer cancel()
					if _, err = file.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Acquire: %v, want to wait for it", err)
					}
					_, err = file.Break(context.Background())
					asLocked(t, err)
					_, err = file.BreakForce(context.Background(), "")
					asLocked(t, err)
				})
			})
		}
	}
}
