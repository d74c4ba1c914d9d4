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
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(exe)
	path := filepath.Join(openFolder(t), "test")
	if err := errors.Join(err, os.WriteFile(path, data, 0o700), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// openFolder is one in which anybody may write, and which anybody can reach.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "durable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func owned(t *testing.T, path string) (uid, gid uint32, mode fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return st.Uid, st.Gid, info.Mode()
}

// TestWriteDurably_Owner: root gives the file to whom it belonged.
func TestWriteDurably_Owner(t *testing.T) {
	testkit.NeedsRoot(t, "give a file to another user")
	path := filepath.Join(t.TempDir(), "f")
	const want = 0o750 | fs.ModeSetuid | fs.ModeSetgid
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 1234, 2345), os.Chmod(path, want)); err != nil {
		t.Fatal(err)
	}
	if err := platform.WriteDurably(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if uid, gid, mode := owned(t, path); uid != 1234 || gid != 2345 || mode != want {
		t.Errorf("%d:%d %v; want 1234:2345 %v", uid, gid, mode, want)
	}
}

// TestWriteDurably_OthersFile: who may write the file, but not give files away,
// becomes the owner of the new one; the group stays, as its members may give it.
func TestWriteDurably_OthersFile(t *testing.T) {
	testkit.NeedsRoot(t, "give a file to another user")
	path := filepath.Join(openFolder(t), "f")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chown(path, 1234, 2345), os.Chmod(path, 0o660)); err != nil {
		t.Fatal(err)
	}
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
		if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chown(path, 65534, 2345), os.Chmod(path, old)); err != nil {
			t.Fatal(err)
		}
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
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chown(path, 1234, 2345),
		os.Chmod(path, 0o777|fs.ModeSetuid|fs.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
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
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o666), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if said := writeAs(t, path, &syscall.Credential{Uid: 65534, Gid: 65534}); !strings.Contains(said, "permission denied") {
		t.Errorf("said %q", said)
	}
	alone(t, path, "old")
	// A temporary file that is another's, in a folder such as /tmp.
	temp := filepath.Join(dir, ".f.holdfast-tmp")
	if err := errors.Join(os.Chmod(dir, 0o777|fs.ModeSticky), os.WriteFile(temp, []byte("root's"), 0o666)); err != nil {
		t.Fatal(err)
	}
	if said := writeAs(t, path, &syscall.Credential{Uid: 65534, Gid: 65534}); !strings.Contains(said, "not permitted") {
		t.Errorf("said %q", said)
	}
	if got, _ := os.ReadFile(temp); string(got) != "root's" {
		t.Errorf("root's file has %q", got)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("contents are %q", got)
	}
}

func TestWriteDurably_CutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if said := writeAs(t, path, nil, "HOLDFAST_PLATFORM_LIMIT=1"); !strings.Contains(said, "file too large") {
		t.Errorf("said %q", said)
	}
	if got := inFolder(t, filepath.Dir(path)); got != "" {
		t.Errorf("left behind: %s", got)
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := writeAs(t, path, nil, "HOLDFAST_PLATFORM_LIMIT=1"); !strings.Contains(said, "file too large") {
		t.Errorf("said %q", said)
	}
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
				if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, test.old)); err != nil {
					t.Fatal(err)
				}
			}
			trace, writer := filepath.Join(t.TempDir(), "trace"), testkit.Command(t, "writer")
			cmd := exec.Command(strace, "-f", "-y", "-o", trace, "-e", "trace=openat,write,fchmod,fsync,rename,renameat,renameat2", writer.Path)
			cmd.Env = append(writer.Env, pathVar+"="+path)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "<nil>") {
				t.Skipf("strace: %v: %s", err, out)
			}
			log, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
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
