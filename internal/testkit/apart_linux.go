package testkit

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Nobody is the user, and the group, without any rights.
const Nobody = 65534

// childVar names the test that this process was started for.
const childVar = "HOLDFAST_TEST_CHILD"

// IsChild reports whether this process was started by InChild.
func IsChild() bool { return os.Getenv(childVar) != "" }

// InChild runs the calling test once more, in a process of its own, and reports whether
// this is that process. The parent takes over the result.
func InChild(t *testing.T, attr *syscall.SysProcAttr) bool {
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

// AsNobody is InChild without root's rights; in place where there are none.
func AsNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	if !InChild(t, &syscall.SysProcAttr{}) {
		return false
	}
	if err := BecomeNobody(); err != nil {
		t.Fatal(err)
	}
	return true
}

// BecomeNobody gives up all rights of root's that this process has.
func BecomeNobody() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(Nobody), syscall.Setuid(Nobody))
}

// WithMounts is InChild with mounts of its own: as root, or else where users may have
// namespaces.
func WithMounts(t *testing.T) bool {
	t.Helper()
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return InChild(t, attr)
}

// Mount gives a folder on a filesystem of its own, until the test ends.
func Mount(t *testing.T, kind, options string) string {
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
