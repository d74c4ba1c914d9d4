package platform_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

// Files.

// TestCreate_Umask: whatever the umask takes away, the mark stays.
func TestCreate_Umask(t *testing.T) { // guards: E3
	if !platform.KeepsMarks {
		t.Skip("needs marks")
	}
	for _, umask := range []int{0, 0o022, 0o027, 0o077, 0o177, 0o777} {
		path := filepath.Join(t.TempDir(), "file")
		old := syscall.Umask(umask)
		f, err := platform.Create(path, true)
		syscall.Umask(old)
		check(t, err)
		info, err := f.Stat()
		if want := os.FileMode(0o600 &^ umask); err != nil || !info.Marked() || info.Mode.Perm() != want {
			t.Errorf("umask %04o: created as %v (%v)", umask, info.Mode, err)
		}
		closed(t, f)
	}
}

// TestOpen_NotAFile: nothing is followed, waited for, or left open.
func TestOpen_NotAFile(t *testing.T) { // guards: H1
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	check(t, err)
	defer syscall.Close(socket)
	t.Chdir(dir) // a socket's address is short
	err = errors.Join(os.Mkdir(path("directory"), 0o700), syscall.Mkfifo(path("fifo"), 0o600),
		syscall.Bind(socket, &syscall.SockaddrUnix{Name: "socket"}),
		os.WriteFile(path("target"), nil, 0o600), os.Symlink("target", path("link")), os.Symlink("absent", path("dangling")))
	check(t, err)
	// Let go of a goroutine that hangs.
	t.Cleanup(func() {
		if fd, err := syscall.Open(path("fifo"), syscall.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			syscall.Close(fd)
		}
	})
	for _, name := range []string{"directory", "fifo", "socket", "link", "dangling"} {
		t.Run(name, func(t *testing.T) {
			before := descriptors(t)
			for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
				promptly(t, "Open", func() {
					wantErr(t, errOf(platform.Open(path(name), flag)), platform.ErrNotRegular, "Open")
				})
			}
			promptly(t, "ReadRegular", func() {
				wantErr(t, errOf(platform.ReadRegular(path(name), 100)), platform.ErrNotRegular, "ReadRegular")
			})
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors became %d", before, after)
			}
		})
	}
	that(t, errOf(os.Lstat(path("absent"))) != nil, "created what a dangling link names")
}

// TestOpen_NotPermitted: to lock a file one need not be allowed to write it.
func TestOpen_NotPermitted(t *testing.T) {
	if !testkit.AsNobody(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(path, nil, 0o400))
	if _, err := platform.Open(path, os.O_RDWR|os.O_CREATE); !errors.Is(err, os.ErrPermission) {
		t.Errorf("to write: %v, want permission denied", err)
	}
	f, err := platform.Open(path, os.O_RDONLY)
	if err == nil {
		err = errors.Join(f.TryLock(platform.Exclusive), f.Close())
	}
	noErr(t, err, "to read, and locked")
	check(t, os.Chmod(path, 0))
	wantErr(t, errOf(platform.Open(path, os.O_RDONLY)), os.ErrPermission, "what may not be read")
}

func TestIdentifyFile_DoesNotFollow(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	check(t, errors.Join(os.WriteFile(target, nil, 0o600), os.Symlink(target, link)))
	a, err := platform.IdentifyFile(target)
	b, berr := platform.IdentifyFile(link)
	check(t, errors.Join(err, berr))
	that(t, a != b, "followed the link")
	info := must(os.Lstat(target))(t)
	st := info.Sys().(*syscall.Stat_t)
	that(t, a.Dev == uint64(st.Dev) && a.Ino == st.Ino, "target is %v, link is %v, stat says %d:%d", a, b, st.Dev, st.Ino)
}

// Filesystems.

// mountedAs is another way to learn a path's filesystem: /proc/self/mountinfo,
// whose third field is the device and whose type follows " - ".
func mountedAs(t *testing.T, path string) string {
	t.Helper()
	info := must(os.Stat(path))(t)
	dev := uint64(info.Sys().(*syscall.Stat_t).Dev)
	number := fmt.Sprintf("%d:%d", dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff)
	mounts := must(os.ReadFile("/proc/self/mountinfo"))(t)
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(before); len(f) > 2 && f[2] == number {
			return strings.Fields(after)[0]
		}
	}
	return ""
}

func TestFilesystemOf(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/dev/shm", "/", "/proc", "/sys"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		want := mountedAs(t, path)
		got, err := platform.FilesystemOf(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if want == "ext2" || want == "ext3" {
			want = "ext4" // one number for the three
		}
		that(t, want == "" || got.Kind == want, "%s is %q, mounted as %q", path, got.Kind, want)
		trusted := map[string]bool{"ext4": true, "xfs": true, "btrfs": true, "zfs": true, "f2fs": true, "tmpfs": true, "overlay": true}
		that(t, got.Trusted == trusted[got.Kind], "%s, %q: trusted is %v", path, got.Kind, got.Trusted)
	}
}
