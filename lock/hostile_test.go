//go:build linux

package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

var (
	inChild    = testkit.InChild
	asNobody   = testkit.AsNobody
	withMounts = testkit.WithMounts
	mount      = testkit.Mount
)

func setLimit(t *testing.T, resource int, n uint64) (restore func()) {
	t.Helper()
	var old syscall.Rlimit
	check(t, syscall.Getrlimit(resource, &old))
	check(t, syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: old.Max}))
	return func() {
		noErr(t, syscall.Setrlimit(resource, &old))
	}
}

// What is compared.

// openBelow lists this process's open files below dir, and its pidfds.
func openBelow(t *testing.T, dir string) string {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Fatal(links, err)
	}
	var open []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && (strings.HasPrefix(target, dir) || strings.Contains(target, "pidfd")) {
			open = append(open, target)
		}
	}
	return strings.Join(open, " ")
}

// untouched runs f, which must come back, and checks that it changed nothing in
// dir, except that it may have made the sibling, and left no descriptor open.
func untouched(t *testing.T, dir string, f func()) {
	t.Helper()
	sibling := "lock.flock"
	if _, err := os.Lstat(filepath.Join(dir, sibling)); err == nil {
		sibling = "" // it is there: it too must stay as it is
	}
	before, open := treeState(t, dir, sibling), openBelow(t, dir)
	promptly(t, "it", f)
	sameTree(t, before, treeState(t, dir, sibling))
	if now := openBelow(t, dir); now != open {
		t.Errorf("open files were %q, and are %q", open, now)
	}
	if info, err := os.Lstat(filepath.Join(dir, "lock.flock")); sibling != "" && err == nil && (!info.Mode().IsRegular() || info.Size() != 0) {
		t.Errorf("the sibling was made as %v, %d bytes", info.Mode(), info.Size())
	}
}

// fails checks that the lock is not had, for a reason of the system's.
func fails(t *testing.T, f lock.File, want ...error) {
	t.Helper()
	held, err := f.TryAcquire(context.Background())
	if err == nil {
		held.Release()
		t.Fatal("the lock was had")
	}
	wantSystemError(t, err, want...)
}

func wantSystemError(t *testing.T, err error, want ...error) {
	t.Helper()
	that(t, !errors.As(err, new(*lock.LockedError)), "%v is not contention", err)
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	t.Errorf("error is %v, want one of %v", err, want)
}

// modes are the ways in which a lock can be taken.
var modes = map[string]func(lock.File) lock.File{
	"kernel lock": func(f lock.File) lock.File { return f },
	"fallback":    lock.File.WithoutKernelLock,
}

// intruders are what may lie where a file is expected. They return false where
// they can't be made.
var intruders = map[string]func(t *testing.T, path string) bool{
	"directory": func(t *testing.T, path string) bool { return os.Mkdir(path, 0o755) == nil },
	"old empty directory": func(t *testing.T, path string) bool {
		old := time.Now().Add(-10_000 * time.Hour)
		return os.Mkdir(path, 0o755) == nil && os.Chtimes(path, old, old) == nil
	},
	"directory with files": func(t *testing.T, path string) bool {
		putFile(t, filepath.Join(path, "precious"), []byte("data"), time.Time{})
		return true
	},
	"symlink to data": func(t *testing.T, path string) bool {
		putFile(t, path+".target", []byte("precious"), time.Now().Add(-10_000*time.Hour))
		return os.Symlink(path+".target", path) == nil
	},
	"symlink to a dead claim": func(t *testing.T, path string) bool {
		putClaim(t, path+".target", evidence.Claim{PID: 2147483647, CreatedAt: time.Unix(0, 0)})
		return os.Symlink(path+".target", path) == nil
	},
	"symlink to a directory": func(t *testing.T, path string) bool {
		return os.Mkdir(path+".target", 0o755) == nil && os.Symlink(path+".target", path) == nil
	},
	"dangling symlink":  func(t *testing.T, path string) bool { return os.Symlink("nowhere", path) == nil },
	"symlink to itself": func(t *testing.T, path string) bool { return os.Symlink(path, path) == nil },
	"FIFO": func(t *testing.T, path string) bool {
		// Let go of a goroutine that hangs.
		t.Cleanup(func() {
			if fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
				syscall.Close(fd)
			}
		})
		return syscall.Mkfifo(path, 0o600) == nil
	},
	"socket": func(t *testing.T, path string) bool {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return false
		}
		defer syscall.Close(fd)
		t.Chdir(filepath.Dir(path)) // a socket's address is short
		return syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Base(path)}) == nil
	},
	"device": func(t *testing.T, path string) bool {
		const null = 1<<8 | 3
		return syscall.Mknod(path, syscall.S_IFCHR|0o666, null) == nil
	},
}

func put(t *testing.T, what, path string) {
	t.Helper()
	if intruders[what](t, path) {
		return
	}
	if what == "device" {
		t.Skip("needs the right to make a device")
	}
	t.Fatalf("can't make a %s", what)
}
