package platform_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
	"golang.org/x/sys/unix"
)

// Kernel locks.

func TestKernelLock_NotAFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(socket)
	t.Chdir(dir) // a socket's address is short
	err = errors.Join(os.Mkdir(path("directory"), 0o700), syscall.Mkfifo(path("fifo"), 0o600),
		syscall.Bind(socket, &syscall.SockaddrUnix{Name: "socket"}),
		os.WriteFile(path("target"), nil, 0o600), os.Symlink("target", path("link")), os.Symlink("absent", path("dangling")))
	if err != nil {
		t.Fatal(err)
	}
	// Let go of a goroutine that hangs.
	t.Cleanup(func() {
		if fd, err := syscall.Open(path("fifo"), syscall.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			syscall.Close(fd)
		}
	})
	for _, name := range []string{"directory", "fifo", "socket", "link", "dangling"} {
		t.Run(name, func(t *testing.T) {
			before := descriptors(t)
			promptly(t, "TryKernelLock", func() {
				if _, err := platform.TryKernelLock(path(name), platform.Exclusive); err == nil || err == platform.ErrBusy || errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("TryKernelLock: %v", err)
				}
			})
			promptly(t, "WaitKernelLock", func() {
				if _, err := platform.WaitKernelLock(path(name), platform.Shared); err == nil || errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("WaitKernelLock: %v", err)
				}
			})
			promptly(t, "PeekKernelLock", func() {
				if err := platform.PeekKernelLock(path(name)); err == nil || err == platform.ErrBusy || errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("PeekKernelLock: %v", err)
				}
			})
			promptly(t, "TryTurnstile", func() {
				// Nothing to take, though the system may say so in its own way.
				if turnstile, err := platform.TryTurnstile(path(name)); turnstile != nil || err == platform.ErrBusy {
					turnstile.Open()
					t.Errorf("TryTurnstile: %v", err)
				}
			})
			promptly(t, "ReadRegular", func() {
				if _, _, err := platform.ReadRegular(path(name), 100); !errors.Is(err, platform.ErrNotRegular) {
					t.Errorf("ReadRegular: %v", err)
				}
			})
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors became %d", before, after)
			}
		})
	}
	if _, err := os.Lstat(path("absent")); err == nil {
		t.Error("created what a dangling link names")
	}
}

func TestKernelLock_ReadOnlyFile(t *testing.T) {
	if os.Geteuid() == 0 {
		// Permissions do not bind root. Run this test as somebody else.
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestKernelLock_ReadOnlyFile$", "-test.v")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
		cmd.Dir = "/"
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
			t.Errorf("as another user: %v\n%s", err, out)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "sibling")
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := platform.TryKernelLock(path, platform.Exclusive); !errors.Is(err, os.ErrPermission) {
		t.Errorf("TryKernelLock: %v, want permission denied", err)
	}
	if err := platform.PeekKernelLock(path); err != nil {
		t.Errorf("PeekKernelLock: %v", err)
	}
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := platform.PeekKernelLock(path); !errors.Is(err, os.ErrPermission) {
		t.Errorf("PeekKernelLock of what may not be read: %v", err)
	}
	if _, info, err := platform.ReadRegular(path, 10); !errors.Is(err, os.ErrPermission) || info == nil {
		t.Errorf("ReadRegular of what may not be read: %v, %v", info, err)
	}
}

// TestKernelLock_NotInherited: a child has none of our descriptors.
func TestKernelLock_NotInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	k := tryLock(t, path, platform.Exclusive)
	var p platform.Process
	child, end := playRole(t, "wait", &p)
	defer end()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", child.Process.Pid))
	if err != nil || len(links) == 0 {
		t.Fatal(links, err)
	}
	for _, link := range links {
		if target, _ := os.Readlink(link); target == path {
			t.Error("the child has the file open")
		}
	}
	unlock(t, k)
	unlock(t, tryLock(t, path, platform.Exclusive))
}

// A lease, such as a file server takes, is broken by waiting for it, even by who else
// does not wait: it stands for nobody's lock.
func TestKernelLock_Leased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGIO) // by which the kernel asks for it back
	defer signal.Stop(signals)
	fd := reader.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		t.Skip("needs a filesystem with leases: ", err)
	}
	given := make(chan error, 1)
	go func() {
		<-signals
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		given <- err
	}()
	promptly(t, "TryKernelLock", func() { unlock(t, tryLock(t, path, platform.Exclusive)) })
	promptly(t, "the lease", func() {
		if err := <-given; err != nil {
			t.Error(err)
		}
	})
}

func TestKernelLock_TurnExclusive(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sibling")
	turn := func(k *platform.KernelLock, want bool) {
		t.Helper()
		if alone, err := k.TurnExclusive(); alone != want || err != nil {
			t.Errorf("%v, %v; want %v", alone, err, want)
		}
	}
	before := descriptors(t)
	one, two := tryLock(t, path, platform.Shared), tryLock(t, path, platform.Shared)
	turn(one, false)
	turn(one, false) // it is over
	unlock(t, one)
	if err := os.Rename(path, filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	other := tryLock(t, path, platform.Exclusive) // of a file that took the path
	turn(two, true)
	if _, err := platform.TryKernelLock(filepath.Join(dir, "moved"), platform.Shared); err != platform.ErrBusy {
		t.Errorf("not exclusive: %v", err)
	}
	unlock(t, two)
	unlock(t, tryLock(t, filepath.Join(dir, "moved"), platform.Exclusive))
	unlock(t, other)
	if _, same, err := other.At(path); !same || err != nil {
		t.Errorf("after Unlock: %v, %v", same, err)
	}
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors became %d", before, now)
	}
}
