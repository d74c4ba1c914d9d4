//go:build linux

package lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// Running a test in a child: with other rights, limits or mounts.

const childVar = "HOLDFAST_TEST_CHILD"

// inChild runs the calling test once more, in a process of its own, and reports
// whether this is that process. The parent takes over the result.
func inChild(t *testing.T, attr *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv(childVar) == t.Name() {
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), childVar+"="+t.Name())
	cmd.SysProcAttr = attr
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("needs the right to start a process with %+v: %v", *attr, err)
	}
	err = cmd.Wait()
	switch {
	case err == nil && bytes.Contains(out.Bytes(), []byte("--- PASS: "+t.Name())):
	case err == nil && bytes.Contains(out.Bytes(), []byte("--- SKIP: "+t.Name())):
		t.Skipf("in the child:\n%s", out.Bytes())
	default:
		t.Errorf("in the child: %v\n%s", err, out.Bytes())
	}
	return false
}

// asNobody is inChild without root's rights; in place where there are none.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	if !inChild(t, &syscall.SysProcAttr{}) {
		return false
	}
	const nobody = 65534
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		t.Fatal(err)
	}
	return true
}

// withMounts is inChild with mounts of its own: as root, or else where users may
// have namespaces.
func withMounts(t *testing.T) bool {
	t.Helper()
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return inChild(t, attr)
}

// mount gives a folder on a filesystem of its own.
func mount(t *testing.T, kind, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, kind, 0, options); err != nil {
		t.Fatalf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func setLimit(t *testing.T, resource int, n uint64) (restore func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(resource, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(resource, &old); err != nil {
			t.Error(err)
		}
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
	if locked := new(lock.ErrLocked); errors.As(err, &locked) {
		t.Errorf("%v is not contention", err)
	}
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
		putClaim(t, path+".target", lock.LockInfo{PID: 2147483647, CreatedAt: time.Unix(0, 0)})
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

// TestHostile_LockPath: what is no file is somebody else's lock, whatever its age,
// and whatever the caller thinks of age.
func TestHostile_LockPath(t *testing.T) {
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
						if l := asLocked(t, err); l.Evidence != lock.NotALockFile || l.Info != nil || l.Path != path {
							t.Errorf("TryAcquire: %+v", l)
						}
						status, err := file.Inspect(context.Background())
						if err != nil || status.State != lock.StateUnknown || status.Evidence != lock.NotALockFile {
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
func TestHostile_HugeFile(t *testing.T) {
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "lock")
			old := time.Now().Add(-10_000 * time.Hour)
			// It begins like a claim of the dead.
			putFile(t, path, []byte(`{"pid":2147483647,"created_at":"2020-01-02T03:04:05Z"}`), time.Time{})
			if err := os.Truncate(path, 1<<30); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, file := range []lock.File{{Path: path}, {Path: path, StaleAfter: time.Hour}} {
				untouched(t, dir, func() {
					_, err := in(file).TryAcquire(context.Background())
					if l := asLocked(t, err); l.Evidence != lock.NotALockFile {
						t.Errorf("%+v", l)
					}
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
func TestHostile_SizeLimit(t *testing.T) {
	claim := `{"pid":2147483647,"created_at":"2020-01-02T03:04:05Z"}`
	for _, test := range []struct {
		size int
		had  bool
	}{{lock.MaxClaim, true}, {lock.MaxClaim + 1, false}} {
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
func TestHostile_Content(t *testing.T) {
	for name, content := range notClaims {
		for mode, in := range modes {
			t.Run(name+", "+mode, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "lock")
				putFile(t, path, []byte(content), time.Time{})
				for _, file := range []lock.File{{Path: path}, {Path: path, StaleAfter: time.Hour}, {Path: path, StaleAfter: -1}} {
					file = in(file.WithPIDAlive(func(int) bool { return false }))
					untouched(t, dir, func() {
						_, err := file.TryAcquire(context.Background())
						if l := asLocked(t, err); l.Verdict != lock.Unknown || l.Info != nil {
							t.Errorf("%+v", l)
						}
						status, err := file.Inspect(context.Background())
						if err != nil || status.State != lock.StateUnknown || status.Holder != nil {
							t.Errorf("%+v, %v", status, err)
						}
					})
				}
			})
		}
	}
}

// TestHostile_DataByMistake: a path that leads to somebody's data. Nobody said
// that age counts, so no age is enough.
func TestHostile_DataByMistake(t *testing.T) {
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
					if l := asLocked(t, err); l.Evidence != lock.NotALockFile || l.Info != nil {
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

// TestHostile_Sibling: what is planted in the sibling's place is neither followed
// nor waited for. It is no contention, and no lack of kernel locks either: to go
// on without would let two holders in.
func TestHostile_Sibling(t *testing.T) {
	for what := range intruders {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			file := lock.File{Path: filepath.Join(dir, "lock")}
			put(t, what, file.Path+".flock")
			kinds := []error{platform.ErrNotRegular, syscall.ELOOP, syscall.EISDIR, syscall.ENXIO}
			untouched(t, dir, func() { fails(t, file, kinds...) })
			untouched(t, dir, func() {
				_, err := file.Acquire(context.Background())
				wantSystemError(t, err, kinds...)
			})
			// Looking does not wait either, whatever it finds.
			untouched(t, dir, func() {
				if status, err := file.Inspect(context.Background()); err == nil && status.State == lock.StateHeld {
					t.Errorf("Inspect: %+v", status)
				}
			})
			putClaim(t, file.Path, lock.LockInfo{PID: 2147483647, CreatedAt: time.Now()})
			untouched(t, dir, func() { fails(t, file, kinds...) })
			untouched(t, dir, func() { file.Inspect(context.Background()) })
		})
	}
}

// TestHostile_SiblingWhileHeld: the holder comes to no harm, nor does what was
// planted.
func TestHostile_SiblingWhileHeld(t *testing.T) {
	for what := range intruders {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			file := lock.File{Path: filepath.Join(dir, "lock")}
			held := tryHold(t, file)
			if err := os.Remove(file.Path + ".flock"); err != nil {
				t.Fatal(err)
			}
			put(t, what, file.Path+".flock")
			untouched(t, dir, func() {
				if fence, err := held.Fence(); err == nil {
					t.Errorf("fence %d was kept in a %s", fence, what)
				}
			})
			before := treeState(t, dir, "lock")
			promptly(t, "Release", func() {
				if err := held.Release(); err != nil {
					t.Error(err)
				}
			})
			sameTree(t, before, treeState(t, dir, "lock"))
			isAbsent(t, file.Path)
		})
	}
}

// TestHostile_SiblingReplaced: between the opening of the sibling and its lock
// somebody puts another file in its place. Who locked the old one has nothing.
func TestHostile_SiblingReplaced(t *testing.T) {
	replace := func(path string) {
		if err := os.Rename(path, path+".moved"); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	t.Run("once", func(t *testing.T) {
		file := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
		times := 0
		held := tryHold(t, file.Park(func(step string) {
			if step == lock.AcquireSteps[0] {
				if times++; times == 1 {
					replace(file.Path + ".flock")
				}
			}
		}))
		defer letGo(t, held)
		if times != 2 {
			t.Errorf("locked %d times, want 2", times)
		}
		id, err := platform.IdentifyFile(file.Path + ".flock")
		if err != nil || held.Info().Flock != id.String() {
			t.Errorf("claim is under %q, the sibling is %q (%v)", held.Info().Flock, id, err)
		}
		if err := platform.PeekKernelLock(file.Path + ".flock"); err != platform.ErrBusy {
			t.Errorf("the sibling's kernel lock: %v", err)
		}
		if err := platform.PeekKernelLock(file.Path + ".flock.moved"); err != nil {
			t.Errorf("the old sibling's kernel lock: %v", err)
		}
	})
	t.Run("by somebody who has the lock now", func(t *testing.T) {
		file := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
		var quick *lock.Held
		slow := file.Park(func(step string) {
			if step == lock.AcquireSteps[0] && quick == nil {
				replace(file.Path + ".flock")
				quick = tryHold(t, file)
			}
		})
		if l := notHad(t, slow); l.Info == nil || l.Info.Nonce != quick.Info().Nonce {
			t.Errorf("holder is %+v", l.Info)
		}
		letGo(t, quick)
	})
	t.Run("again and again", func(t *testing.T) {
		dir := t.TempDir()
		file := lock.File{Path: filepath.Join(dir, "lock")}
		_, err := file.Park(func(step string) {
			if step == lock.AcquireSteps[0] {
				replace(file.Path + ".flock")
			}
		}).TryAcquire(context.Background())
		if err == nil {
			t.Fatal("the lock was had")
		}
		if locked := new(lock.ErrLocked); errors.As(err, &locked) || !strings.Contains(err.Error(), ".flock") {
			t.Errorf("error is %v", err)
		}
		isAbsent(t, file.Path)
		if open := openBelow(t, dir); open != "" {
			t.Errorf("open files: %q", open)
		}
	})
}

// TestHostile_SiblingContent: whatever is in the sibling stays there.
func TestHostile_SiblingContent(t *testing.T) {
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, "lock")}
	putFile(t, file.Path+".flock", []byte("somebody's"), time.Now().Add(-time.Hour))
	if err := os.Truncate(file.Path+".flock", 1<<30); err != nil {
		t.Fatal(err)
	}
	untouched(t, dir, func() { letGo(t, tryHold(t, file)) })
}

// TestHostile_Marker: as for the lock file.
func TestHostile_Marker(t *testing.T) {
	for what := range intruders {
		for mode, in := range modes {
			t.Run(what+", "+mode, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "lock")
				putClaim(t, path, lock.LockInfo{PID: 2147483647, CreatedAt: time.Unix(0, 0)})
				put(t, what, path+".reclaim")
				for _, file := range []lock.File{
					{Path: path},
					lock.File{Path: path, StaleAfter: 1}.WithClock(func() time.Time { return time.Now().Add(10_000 * time.Hour) }),
				} {
					untouched(t, dir, func() {
						_, err := in(file).TryAcquire(context.Background())
						if l := asLocked(t, err); l.Evidence != lock.BeingReclaimed || l.Path != path {
							t.Errorf("%+v", l)
						}
					})
				}
			})
		}
	}
}

// Names.

func TestHostile_Path(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	slash := dir + "/"
	for path, want := range map[string]error{
		"":                              lock.ErrInvalidName,
		".":                             lock.ErrInvalidName,
		"..":                            lock.ErrInvalidName,
		"../..":                         lock.ErrInvalidName,
		"/":                             lock.ErrInvalidName,
		"x/":                            lock.ErrInvalidName,
		"x/.":                           lock.ErrInvalidName,
		"x/..":                          lock.ErrInvalidName,
		slash:                           lock.ErrInvalidName,
		slash + ".":                     lock.ErrInvalidName,
		"a\x00b":                        lock.ErrInvalidName,
		"\x00":                          lock.ErrInvalidName,
		"a\x00/lock":                    lock.ErrInvalidName,
		"x.flock":                       lock.ErrInvalidName,
		"x.reclaim":                     lock.ErrInvalidName,
		"x.reclaim.0123456789abcdef":    lock.ErrInvalidName,
		"no/such/folder/lock":           fs.ErrNotExist,
		"nosuch/lock":                   fs.ErrNotExist,
		strings.Repeat("x", 256):        nil,
		strings.Repeat("x", 1<<16):      nil,
		strings.Repeat("x/", 1<<14):     nil,
		strings.Repeat("../", 1<<11):    nil,
		strings.Repeat("y", 300) + "/x": nil,
	} {
		for mode, in := range modes {
			file := in(lock.File{Path: path})
			what := fmt.Sprintf("%.30q, %s", path, mode)
			before := treeState(t, root)
			_, err := file.TryAcquire(context.Background())
			var acquireErr error
			promptly(t, "Acquire", func() { _, acquireErr = file.Acquire(context.Background()) })
			for _, err := range []error{err, acquireErr} {
				if err == nil {
					t.Errorf("%s was accepted", what)
				} else if want != nil && !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
				if locked := new(lock.ErrLocked); errors.As(err, &locked) {
					t.Errorf("%s: %v is not contention", what, err)
				}
			}
			if _, err := file.Inspect(context.Background()); want == lock.ErrInvalidName && !errors.Is(err, want) {
				t.Errorf("%s: Inspect: %v", what, err)
			}
			sameTree(t, before, treeState(t, root))
		}
	}
}

// TestHostile_LongName: a name that can be locked leaves room for the names
// beside it, so that a dead holder's lock can be reclaimed.
func TestHostile_LongName(t *testing.T) {
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			longest := 0
			var stuck []int // where a dead holder's lock stays
			var why error
			for n := 150; n <= 255; n++ {
				dir := t.TempDir()
				file := in(lock.File{Path: filepath.Join(dir, strings.Repeat("x", n))})
				held, err := file.TryAcquire(context.Background())
				if err != nil {
					if locked := new(lock.ErrLocked); errors.As(err, &locked) {
						t.Errorf("%d bytes: %v is not contention", n, err)
					}
					if got := names(t, dir); got != "" {
						t.Errorf("%d bytes: left behind %q", n, got)
					}
					continue
				}
				longest = n
				if err := held.Release(); err != nil {
					stuck, why = append(stuck, n), err
					continue
				}
				os.Remove(file.Path)
				putDeadClaim(t, file.Path)
				if len(filepath.Base(file.Path+".reclaim")) <= 255 {
					putDeadClaim(t, file.Path+".reclaim")
				}
				if held, err = file.TryAcquire(context.Background()); err == nil {
					err = held.Release()
				}
				if err != nil {
					stuck, why = append(stuck, n), err
				}
			}
			if len(stuck) > 0 {
				t.Errorf("a dead holder's lock, or one's own, stays with names of %d bytes: %.100v ...", stuck, why)
			}
			if longest < 200 {
				t.Errorf("the longest name is %d bytes", longest)
			}
		})
	}
}

// Rights.

func TestHostile_UnwritableFolder(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for mode, in := range modes {
		for name, prepare := range map[string]func(t *testing.T, file lock.File){
			"empty":   func(t *testing.T, file lock.File) {},
			"sibling": func(t *testing.T, file lock.File) { letGo(t, tryHold(t, lock.File{Path: file.Path})) },
			"dead claim": func(t *testing.T, file lock.File) {
				letGo(t, tryHold(t, lock.File{Path: file.Path}))
				putDeadClaim(t, file.Path)
			},
			"dead claim and marker": func(t *testing.T, file lock.File) {
				letGo(t, tryHold(t, lock.File{Path: file.Path}))
				putDeadClaim(t, file.Path)
				putDeadClaim(t, file.Path+".reclaim")
			},
		} {
			t.Run(name+", "+mode, func(t *testing.T) {
				dir := t.TempDir()
				file := in(lock.File{Path: filepath.Join(dir, "lock")})
				prepare(t, file)
				chmod(t, dir, 0o500)
				untouched(t, dir, func() { fails(t, file, fs.ErrPermission) })
				untouched(t, dir, func() {
					_, err := file.Acquire(context.Background())
					wantSystemError(t, err, fs.ErrPermission)
				})
				chmod(t, dir, 0)
				promptly(t, "it", func() { fails(t, file, fs.ErrPermission) })
				chmod(t, dir, 0o700)
				letGo(t, tryHold(t, file))
			})
		}
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// TestHostile_ReleaseFails: a lock that can't be let go is still held, and can be
// let go later.
func TestHostile_ReleaseFails(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			file := in(lock.File{Path: filepath.Join(dir, "lock")})
			held := tryHold(t, file)
			chmod(t, dir, 0o500)
			for range 2 {
				err := held.Release()
				wantSystemError(t, err, fs.ErrPermission)
				if errors.Is(err, lock.ErrLost) {
					t.Errorf("%v, but nothing is lost", err)
				}
			}
			if l := notHad(t, file); l.Verdict != lock.Alive {
				t.Errorf("%+v", l)
			}
			chmod(t, dir, 0o700)
			if l := notHad(t, file); l.Info == nil || l.Info.Nonce != held.Info().Nonce {
				t.Errorf("%+v", l)
			}
			letGo(t, held)
			isAbsent(t, file.Path)
			isAbsent(t, file.Path+".reclaim")
			letGo(t, tryHold(t, file))
		})
	}
}

// TestHostile_VanishesDuringRelease: the lock file goes between the holder's last
// look at it and its removal.
func TestHostile_VanishesDuringRelease(t *testing.T) {
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			file := in(lock.File{Path: filepath.Join(t.TempDir(), "lock")})
			held := tryHold(t, file.Park(func(step string) {
				if step == lock.ReleaseSteps[0] {
					os.Remove(file.Path)
				}
			}))
			if err := held.Release(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release: %v, want ErrLost", err)
			}
			isAbsent(t, file.Path+".reclaim")
			letGo(t, tryHold(t, file))
		})
	}
}

// TestHostile_UnreadableByRights: no right to read is no proof of anything, but
// for the mark of an incomplete claim, which is the file's mode.
func TestHostile_UnreadableByRights(t *testing.T) {
	if !asNobody(t) {
		return
	}
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, "lock")}
	putDeadClaim(t, file.Path)
	chmod(t, file.Path, 0)
	untouchedByRights := func(f lock.File, want lock.Verdict) {
		t.Helper()
		before, err := os.Lstat(file.Path)
		if err != nil {
			t.Fatal(err)
		}
		if l := notHad(t, f); l.Verdict != want || l.Info != nil {
			t.Errorf("%+v", l)
		}
		if after, err := os.Lstat(file.Path); err != nil || !platform.Unchanged(before, after) {
			t.Errorf("changed: %v, %v", after, err)
		}
	}
	untouchedByRights(file, lock.Unknown)
	file.StaleAfter = -1
	untouchedByRights(file, lock.Unknown)
	untouchedByRights(file.WithoutKernelLock(), lock.Unknown)
	chmod(t, file.Path, 0o200)
	untouchedByRights(file.WithoutKernelLock(), lock.Unknown)
	letGo(t, tryHold(t, file))

	chmod(t, file.Path+".flock", 0)
	fails(t, file, fs.ErrPermission)
	isAbsent(t, file.Path)
}

// Space and other limits.

// cannotWrite checks all that acquiring can be at when nothing can be written
// any more. dir has lock files of the dead already.
func cannotWrite(t *testing.T, want error, files ...lock.File) {
	t.Helper()
	for mode, in := range modes {
		for _, file := range files {
			file = in(file)
			dir, name := filepath.Dir(file.Path), filepath.Base(file.Path)
			before, open := treeState(t, dir), openBelow(t, dir)
			promptly(t, "TryAcquire", func() { fails(t, file, want) })
			promptly(t, "Acquire", func() {
				_, err := file.Acquire(context.Background())
				wantSystemError(t, err, want)
			})
			after := treeState(t, dir)
			if name == "marked" {
				// The dead marker may be gone by now. Nothing else.
				delete(before, "marked.reclaim")
				delete(after, "marked.reclaim")
			}
			sameTree(t, before, after)
			if now := openBelow(t, dir); now != open {
				t.Errorf("%s, %s: open files were %q, and are %q", name, mode, open, now)
			}
			if k, err := platform.TryKernelLock(file.Path+".flock", platform.Exclusive); err != nil {
				t.Errorf("%s, %s: the kernel lock is left: %v", name, mode, err)
			} else if err := k.Unlock(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Fatalf("so with %s, %s", name, mode)
			}
		}
	}
}

func threeLocks(t *testing.T, dir string) (free, dead, marked lock.File) {
	t.Helper()
	free, dead, marked = lock.File{Path: filepath.Join(dir, "free")}, lock.File{Path: filepath.Join(dir, "dead")}, lock.File{Path: filepath.Join(dir, "marked")}
	putDeadClaim(t, dead.Path)
	putDeadClaim(t, marked.Path)
	putDeadClaim(t, marked.Path+".reclaim")
	for _, f := range []lock.File{free, dead, marked} {
		putFile(t, f.Path+".flock", nil, time.Time{})
	}
	return free, dead, marked
}

func canWriteAgain(t *testing.T, files ...lock.File) {
	t.Helper()
	for _, file := range files {
		for mode, in := range modes {
			held, err := in(file).TryAcquire(context.Background())
			if err != nil {
				t.Errorf("%s, %s: %v", file.Path, mode, err)
				continue
			}
			letGo(t, held)
		}
	}
}

// TestHostile_WriteFails needs no rights: a limit on the size of files.
func TestHostile_WriteFails(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{}) {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	for _, size := range []uint64{0, 1, 40} { // bytes of the claim that can be written
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			free, dead, marked := threeLocks(t, t.TempDir())
			unlimited := setLimit(t, syscall.RLIMIT_FSIZE, size)
			cannotWrite(t, syscall.EFBIG, free, dead, marked)
			unlimited()
			canWriteAgain(t, free, dead, marked)

			// A holder is not harmed.
			for mode, in := range modes {
				file := in(free)
				held := tryHold(t, file)
				unlimited = setLimit(t, syscall.RLIMIT_FSIZE, size)
				const fenceEnd = 2 + 20 + 1
				if fence, err := held.Fence(); size < fenceEnd && !errors.Is(err, syscall.EFBIG) {
					t.Errorf("%s: fence %d, %v", mode, fence, err)
				}
				err := held.Release() // in fallback mode that takes a marker
				if mode == "fallback" {
					wantSystemError(t, err, syscall.EFBIG)
				} else if err != nil {
					t.Error(err)
				}
				unlimited()
				if mode == "fallback" {
					if fence, err := held.Fence(); err != nil || fence == 0 {
						t.Errorf("fence, asked for again: %d, %v", fence, err)
					}
				}
				letGo(t, held)
				isAbsent(t, file.Path)
				isAbsent(t, file.Path+".reclaim")
			}
		})
	}
}

func TestHostile_DiskFull(t *testing.T) {
	if !withMounts(t) {
		return
	}
	dir := mount(t, "tmpfs", "size=32k")
	free, dead, marked := threeLocks(t, dir)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	filler.Close()
	// (To remove a dead marker makes room for one's own.)
	cannotWrite(t, syscall.ENOSPC, free, dead)
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	canWriteAgain(t, free, dead, marked)
}

// TestHostile_NoInodes: not even an empty file can be made: not the sibling, and
// then not the lock file.
func TestHostile_NoInodes(t *testing.T) {
	if !withMounts(t) {
		return
	}
	for mode, in := range modes {
		failures := 0
		for inodes := 2; inodes < 6; inodes++ {
			dir := mount(t, "tmpfs", fmt.Sprintf("size=64k,nr_inodes=%d", inodes))
			putDeadClaim(t, filepath.Join(dir, "lock"))
			file := in(lock.File{Path: filepath.Join(dir, "lock")})
			held, err := file.TryAcquire(context.Background())
			if err == nil {
				letGo(t, held)
				continue
			}
			failures++
			wantSystemError(t, err, syscall.ENOSPC)
			if string(getFile(t, file.Path)) != deadClaim {
				t.Error("the dead claim was changed")
			}
			isAbsent(t, file.Path+".reclaim")
			if open := openBelow(t, dir); open != "" {
				t.Errorf("open files: %q", open)
			}
		}
		if failures == 0 {
			t.Errorf("%s: nothing failed", mode)
		}
	}
}

func TestHostile_ReadOnlyFilesystem(t *testing.T) {
	if !withMounts(t) {
		return
	}
	dir := mount(t, "tmpfs", "size=64k")
	free, dead, marked := threeLocks(t, dir)
	bare := lock.File{Path: filepath.Join(dir, "bare")} // without a sibling
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	before := treeState(t, dir)
	for mode, in := range modes {
		for file, state := range map[*lock.File]lock.State{&free: lock.StateFree, &dead: lock.StateDead, &marked: lock.StateDead, &bare: lock.StateFree} {
			promptly(t, "it", func() {
				fails(t, in(*file), syscall.EROFS)
				_, err := in(*file).Acquire(context.Background())
				wantSystemError(t, err, syscall.EROFS)
				if status, err := in(*file).Inspect(context.Background()); err != nil || status.State != state {
					t.Errorf("%s, %s: %+v, %v; want %s", file.Path, mode, status, err, state)
				}
			})
		}
	}
	sameTree(t, before, treeState(t, dir))
	if open := openBelow(t, dir); open != "" {
		t.Errorf("open files: %q", open)
	}
	remount(0)
	canWriteAgain(t, free, dead, marked, bare)
}

// TestHostile_NoDescriptors: however few descriptors are left, the lock is had or
// the reason is told, and nothing stays behind.
func TestHostile_NoDescriptors(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{}) {
		return
	}
	dir := t.TempDir()
	free, dead := lock.File{Path: filepath.Join(dir, "free")}, lock.File{Path: filepath.Join(dir, "dead")}
	putDeadClaim(t, dead.Path) // the runtime takes descriptors of its own for the first file
	unlimited := setLimit(t, syscall.RLIMIT_NOFILE, 64)
	var spare []int
	exhaust := func() {
		for {
			fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err == syscall.EMFILE {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			spare = append(spare, fd)
		}
	}
	giveBack := func(n int) {
		for range n {
			syscall.Close(spare[len(spare)-1])
			spare = spare[:len(spare)-1]
		}
	}
	defer func() { giveBack(len(spare)); unlimited() }()
	exhaust()
	total := len(spare)
	failures, successes := 0, 0
	for left := range 8 {
		for mode, in := range modes {
			for _, file := range []lock.File{free, dead} {
				giveBack(2)
				os.Remove(dead.Path)
				putDeadClaim(t, dead.Path)
				exhaust()
				giveBack(left)
				held, err := in(file).TryAcquire(context.Background())
				if err == nil {
					successes++
					err := held.Release()
					if err != nil { // in fallback mode that takes a marker
						wantSystemError(t, err, syscall.EMFILE)
						giveBack(3)
						err = held.Release()
					}
					if err != nil {
						t.Error(err)
					}
				} else {
					failures++
					wantSystemError(t, err, syscall.EMFILE)
					if _, err := os.Lstat(file.Path); file.Path == free.Path && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%d left, %s: the lock file stays (%v)", left, mode, err)
					}
				}
				if _, err := os.Lstat(file.Path + ".reclaim"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%d left, %s: the marker stays (%v)", left, mode, err)
				}
				exhaust()
				if len(spare) != total {
					t.Fatalf("%d left, %s: of %d descriptors %d came back", left, mode, total, len(spare))
				}
			}
		}
	}
	if failures == 0 || successes == 0 {
		t.Errorf("%d failures, %d successes: want some of each", failures, successes)
	}

	giveBack(len(spare))
	unlimited()

	// Nor has it forgotten who it is.
	held := tryHold(t, free)
	defer letGo(t, held)
	claim := held.Info()
	if bootID := strings.TrimSpace(string(getFile(t, "/proc/sys/kernel/random/boot_id"))); claim.BootID != bootID {
		t.Errorf("boot id is %q, want %q", claim.BootID, bootID)
	}
	if claim.Start == 0 || claim.PIDNamespace == 0 || claim.Hostname == "" {
		t.Errorf("claim is %+v", claim)
	}
}

// A filesystem that is not trusted: ramfs has kernel locks, and is not on the list.

func TestHostile_UntrustedFilesystem(t *testing.T) {
	if !withMounts(t) {
		return
	}
	dir := mount(t, "ramfs", "")
	path := func(name string) lock.File { return lock.File{Path: filepath.Join(dir, name)} }

	t.Run("RequireKernelLock", func(t *testing.T) {
		file := path("required")
		file.RequireKernelLock = true
		_, err := file.TryAcquire(context.Background())
		if !errors.Is(err, lock.ErrUnsupported) || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "ramfs") {
			t.Errorf("error is %v", err)
		}
		isAbsent(t, file.Path)
	})

	t.Run("the kernel lock excludes, and the claim is renewed", func(t *testing.T) {
		file := path("held")
		file.StaleAfter = 30 * time.Millisecond
		held := tryHold(t, file)
		first := held.Info()
		if first.Flock == "" || first.RenewedAt.IsZero() {
			t.Errorf("claim is %+v", first)
		}
		if l := notHad(t, file); l.Evidence != lock.KernelLockHeld {
			t.Errorf("%q", l.Evidence)
		}
		if l := notHad(t, file.WithoutKernelLock()); l.Evidence != lock.SameProcess {
			t.Errorf("%q", l.Evidence)
		}
		eventually(t, "the claim is renewed", func() bool { return getClaim(t, file.Path).RenewedAt.After(first.RenewedAt) })
		letGo(t, held)
		isAbsent(t, file.Path)
	})

	t.Run("loss is found", func(t *testing.T) {
		file := path("lost")
		file.StaleAfter = 30 * time.Millisecond
		held := tryHold(t, file)
		putDeadClaim(t, file.Path)
		promptly(t, "the loss", func() { <-held.Lost() })
		if err := held.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release: %v", err)
		}
		if string(getFile(t, file.Path)) != deadClaim {
			t.Error("the successor's claim was changed")
		}
	})

	self, dead := ownClaim(t), formerClaim(t)
	for _, test := range []struct {
		name     string
		base     lock.LockInfo
		change   func(*lock.LockInfo)
		evidence lock.Evidence // of a dead holder if it is a verdict of death
	}{
		{"a free kernel lock proves nothing", self, func(c *lock.LockInfo) { c.PIDNamespace = 1 }, lock.ForeignNamespace},
		{"with the process gone it does", dead, nil, lock.PIDReused},
		{"an earlier boot may be another machine's", self, func(c *lock.LockInfo) { c.BootID = "another" }, lock.ForeignHost},
		{"age", self, func(c *lock.LockInfo) { c.BootID, c.CreatedAt = "another", time.Now().Add(-3*time.Hour) }, lock.Aged},
		{"a bare pid may be another machine's", lock.LockInfo{PID: 2147483647, CreatedAt: time.Now()}, nil, lock.ForeignHost},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := path(strings.ReplaceAll(test.name, " ", "-"))
			letGo(t, tryHold(t, file)) // makes the sibling
			id, err := platform.IdentifyFile(file.Path + ".flock")
			if err != nil {
				t.Fatal(err)
			}
			claim := test.base
			if claim.BootID != "" {
				claim.Flock = id.String()
			}
			if test.change != nil {
				test.change(&claim)
			}
			putClaim(t, file.Path, claim)
			status, err := file.Inspect(context.Background())
			if err != nil || status.Evidence != test.evidence {
				t.Errorf("Inspect: %+v, %v; want %q", status, err, test.evidence)
			}
			if verdictOf[test.evidence] == lock.Dead {
				letGo(t, tryHold(t, file))
			} else if l := notHad(t, file); l.Evidence != test.evidence {
				t.Errorf("%q, want %q", l.Evidence, test.evidence)
			}
		})
	}

	t.Run("an incomplete claim may be another machine's", func(t *testing.T) {
		file := path("incomplete")
		putFile(t, file.Path, nil, time.Time{})
		chmod(t, file.Path, 0o200)
		if l := notHad(t, file); l.Evidence != lock.Unreadable {
			t.Errorf("%q", l.Evidence)
		}
	})
}
