package platform_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

func init() { roles["writer"] = writer }

// writer writes what it is told under limits that it is told, and says what came
// of it.
func writer() {
	if os.Getenv("HOLDFAST_PLATFORM_LIMIT") != "" {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096}); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Print(platform.WriteDurably(os.Getenv(pathVar), []byte(strings.Repeat("x", 8192))))
}

// writeAs has another process write, with certain rights.
func writeAs(t *testing.T, path string, who *syscall.Credential, env ...string) string {
	t.Helper()
	cmd := testkit.Command(t, "writer")
	if who != nil {
		cmd.Path = forAnybody(t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	}
	cmd.Stderr = nil
	cmd.Env = append(append(cmd.Env, pathVar+"="+path), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// forAnybody is a copy of this test binary that any user can reach, and run.
func forAnybody(t *testing.T) string {
	t.Helper()
	exe := must(os.Executable())(t)
	data, err := os.ReadFile(exe)
	path := filepath.Join(openFolder(t), "test")
	check(t, errors.Join(err, os.WriteFile(path, data, 0o700), os.Chmod(path, 0o755)))
	return path
}

// openFolder is one in which anybody may write, and which anybody can reach.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := must(os.MkdirTemp("", "durable"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o777))
	return dir
}

func owned(t *testing.T, path string) (uid, gid uint32, mode fs.FileMode) {
	t.Helper()
	info := must(os.Lstat(path))(t)
	st := info.Sys().(*syscall.Stat_t)
	return st.Uid, st.Gid, info.Mode()
}

// TestWriteDurably_Owner: root gives the file to whom it belonged.
func TestWriteDurably_Owner(t *testing.T) {
	testkit.NeedsRoot(t, "give a file to another user")
	path := filepath.Join(t.TempDir(), "f")
	const want = 0o750 | fs.ModeSetuid | fs.ModeSetgid
	check(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 1234, 2345), os.Chmod(path, want)))
	check(t, platform.WriteDurably(path, []byte("new")))
	if uid, gid, mode := owned(t, path); uid != 1234 || gid != 2345 || mode != want {
		t.Errorf("%d:%d %v; want 1234:2345 %v", uid, gid, mode, want)
	}
}

// TestWriteDurably_OthersFile: who may write the file, but not give files away,
// becomes the owner of the new one; the group stays, as its members may give it.
func TestWriteDurably_OthersFile(t *testing.T) {
	testkit.NeedsRoot(t, "give a file to another user")
	path := filepath.Join(openFolder(t), "f")
	check(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chown(path, 1234, 2345), os.Chmod(path, 0o660)))
	if said := writeAs(t, path, &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{2345}}); said != "<nil>" {
		t.Fatal(said)
	}
	if uid, gid, mode := owned(t, path); uid != 65534 || gid != 2345 || mode != 0o660 {
		t.Errorf("%d:%d %v; want 65534:2345 -rw-rw----", uid, gid, mode)
	}
}

// TestWriteDurably_OthersGroup: where the group can't be kept, ours gets no more than
// everybody has.
func TestWriteDurably_OthersGroup(t *testing.T) {
	testkit.NeedsRoot(t, "give a file to another user")
	for old, want := range map[fs.FileMode]fs.FileMode{
		0o660: 0o600, 0o674: 0o644, 0o606: 0o606,
		0o755 | fs.ModeSetgid: 0o755, 0o755 | fs.ModeSetuid: 0o755, // what ran as one group must not run as another
	} {
		path := filepath.Join(openFolder(t), "f")
		check(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chown(path, 65534, 2345), os.Chmod(path, old)))
		if said := writeAs(t, path, &syscall.Credential{Uid: 65534, Gid: 65534}); said != "<nil>" {
			t.Fatal(said)
		}
		if uid, gid, mode := owned(t, path); uid != 65534 || gid != 65534 || mode != want {
			t.Errorf("%d:%d %v; want 65534:65534 %v", uid, gid, mode, want)
		}
	}
}

// TestWriteDurably_OthersProgram: rights to act as the file's owner are not turned
// into rights to act as somebody else.
func TestWriteDurably_OthersProgram(t *testing.T) {
	testkit.NeedsRoot(t, "give a file to another user")
	path := filepath.Join(openFolder(t), "f")
	check(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chown(path, 1234, 2345),
		os.Chmod(path, 0o777|fs.ModeSetuid|fs.ModeSetgid)))
	if said := writeAs(t, path, &syscall.Credential{Uid: 65534, Gid: 65534}); said != "<nil>" {
		t.Fatal(said)
	}
	if uid, gid, mode := owned(t, path); mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		t.Errorf("%d:%d %v; want no special bits for a new owner", uid, gid, mode)
	}
}

func TestWriteDurably_NoPermission(t *testing.T) {
	testkit.NeedsRoot(t, "become somebody else")
	dir := openFolder(t)
	path := filepath.Join(dir, "f")
	check(t, errors.Join(os.WriteFile(path, []byte("old"), 0o666), os.Chmod(dir, 0o755)))
	contains(t, writeAs(t, path, &syscall.Credential{Uid: 65534, Gid: 65534}), "permission denied", "said")
	alone(t, path, "old")
	// A temporary file that is another's, in a folder such as /tmp.
	temp := filepath.Join(dir, ".f.holdfast-tmp")
	check(t, errors.Join(os.Chmod(dir, 0o777|fs.ModeSticky), os.WriteFile(temp, []byte("root's"), 0o666)))
	contains(t, writeAs(t, path, &syscall.Credential{Uid: 65534, Gid: 65534}), "not permitted", "said")
	if got, _ := os.ReadFile(temp); string(got) != "root's" {
		t.Errorf("root's file has %q", got)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("contents are %q", got)
	}
}

func TestWriteDurably_CutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	contains(t, writeAs(t, path, nil, "HOLDFAST_PLATFORM_LIMIT=1"), "file too large", "said")
	equal(t, inFolder(t, filepath.Dir(path)), "", "left behind")
	check(t, os.WriteFile(path, []byte("old"), 0o600))
	contains(t, writeAs(t, path, nil, "HOLDFAST_PLATFORM_LIMIT=1"), "file too large", "said")
	alone(t, path, "old")
}

// TestWriteDurably_SystemCalls compares what the kernel is asked for with what is
// promised: nothing is written to a file that others may read than those of the old one;
// the contents are on disk before the name is, and the name before the end.
func TestWriteDurably_SystemCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace, to see the system calls")
	}
	const created = "/.f.holdfast-tmp\", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, "
	written := []string{"write(", "/.f.holdfast-tmp>, \"xxx", "fsync(", "/.f.holdfast-tmp>", "rename", "fsync("}
	for _, test := range []struct {
		name  string
		old   fs.FileMode // of which the file is there; 0: it is not
		calls []string
	}{
		{"new", 0, append([]string{created + "0644)"}, written...)},
		{"private", 0o600, append([]string{created + "0600)", "fchmod(", "/.f.holdfast-tmp>, 0600)"}, written...)},
		{"wider", 0o664, append([]string{created + "0600)", "fchmod(", "/.f.holdfast-tmp>, 0664)"}, written...)},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if test.old != 0 {
				check(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, test.old)))
			}
			trace, writer := filepath.Join(t.TempDir(), "trace"), testkit.Command(t, "writer")
			cmd := exec.Command(strace, "-f", "-y", "-o", trace, "-e", "trace=openat,write,fchmod,fsync,rename,renameat,renameat2", writer.Path)
			cmd.Env = append(writer.Env, pathVar+"="+path)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "<nil>") {
				t.Skipf("strace: %v: %s", err, out)
			}
			log := must(os.ReadFile(trace))(t)
			rest := string(log)
			for _, call := range append(test.calls, "<"+filepath.Dir(path)+">") {
				_, after, found := strings.Cut(rest, call)
				if !found {
					t.Fatalf("%q is missing, or out of order, in\n%s", call, log)
				}
				rest = after
			}
		})
	}
}
