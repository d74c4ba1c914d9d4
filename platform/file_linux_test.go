package platform_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Files.

func TestCreateIncomplete_Umask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o027, 0o077, 0o177} {
		path := filepath.Join(t.TempDir(), "file")
		old := syscall.Umask(umask)
		f, err := platform.CreateIncomplete(path)
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		before, err := os.Lstat(path)
		if err != nil || before.Mode() != 0o200 || !platform.IsIncomplete(before) {
			t.Errorf("umask %04o: created as %v (%v)", umask, before.Mode(), err)
		}
		if err := f.MarkComplete(); err != nil {
			t.Error(err)
		}
		if after, err := os.Lstat(path); err != nil || after.Mode() != 0o600 {
			t.Errorf("umask %04o: completed as %v (%v)", umask, after.Mode(), err)
		}
		f.Close()
	}
}

// TestIdentifyFile_InodeReused: a file deleted and made anew is another one, even
// in the same inode, once the filesystem's clock has gone on (4 ms on ext4).
func TestIdentifyFile_InodeReused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	make := func() platform.FileID {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := platform.IdentifyFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if id.Birth == 0 {
			if fsys, err := platform.FilesystemOf(path); err != nil || fsys.Kind == "ext4" || fsys.Kind == "xfs" || fsys.Kind == "btrfs" {
				t.Fatalf("no time of birth on %s (%v)", fsys.Kind, err)
			}
			t.Skip("needs a filesystem that keeps the time of birth")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := make()
	var next platform.FileID
	eventually(t, "a file is made in another moment", func() bool {
		next = make()
		return next.Birth != first.Birth
	})
	if age := time.Since(time.Unix(0, first.Birth)); age < -patience || age > 2*patience {
		t.Errorf("born %s ago", age)
	}
	if next == first {
		t.Errorf("two files are %v", first)
	}
	t.Logf("inode %d, then %d", first.Ino, next.Ino)
}

func TestIdentifyFile_DoesNotFollow(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, nil, 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	a, err := platform.IdentifyFile(target)
	b, berr := platform.IdentifyFile(link)
	if err := errors.Join(err, berr); err != nil {
		t.Fatal(err)
	}
	if a == b {
		t.Error("followed the link")
	}
	info, err := os.Lstat(target)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if a.Dev != uint64(st.Dev) || a.Ino != st.Ino {
		t.Errorf("target is %v, link is %v, stat says %d:%d", a, b, st.Dev, st.Ino)
	}
}

// Filesystems.

// mountedAs is another way to learn a path's filesystem: /proc/self/mountinfo,
// whose third field is the device and whose type follows " - ".
func mountedAs(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	dev := uint64(info.Sys().(*syscall.Stat_t).Dev)
	number := fmt.Sprintf("%d:%d", dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
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
		if want != "" && got.Kind != want {
			t.Errorf("%s is %q, mounted as %q", path, got.Kind, want)
		}
		trusted := map[string]bool{"ext4": true, "xfs": true, "btrfs": true, "zfs": true, "f2fs": true, "tmpfs": true, "overlay": true}
		if got.Trusted != trusted[got.Kind] {
			t.Errorf("%s, %q: trusted is %v", path, got.Kind, got.Trusted)
		}
	}
}
