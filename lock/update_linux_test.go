//go:build linux

package lock_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// TestUpdate_KeepsSpecialBits: as whoever runs the tests, and as one who has no
// special rights. (A write(2) by the latter clears set-user-ID and set-group-ID.)
func TestUpdate_KeepsSpecialBits(t *testing.T) {
	for _, bits := range []fs.FileMode{fs.ModeSetuid, fs.ModeSetgid, fs.ModeSticky, fs.ModeSetuid | fs.ModeSetgid} {
		path := filepath.Join(t.TempDir(), "f")
		want := 0o755 | bits
		check(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, want)))
		if got := modeOf(t, path); got != want {
			t.Skipf("needs a filesystem that keeps mode %v; here it becomes %v", want, got)
		}
		update(t, path, into("new"))
		hasContents(t, path, "new")
		equal(t, modeOf(t, path), want, "mode")
	}
}

func TestUpdate_KeepsSpecialBitsUnprivileged(t *testing.T) {
	if !asNobody(t) {
		return
	}
	TestUpdate_KeepsSpecialBits(t)
}

func TestUpdate_KeepsOwner(t *testing.T) {
	testkit.NeedsRoot(t, "give a file to another user")
	path := filepath.Join(t.TempDir(), "f")
	for _, mode := range []fs.FileMode{0o600, 0o755 | fs.ModeSetuid} {
		check(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chown(path, 1234, 2345), os.Chmod(path, mode)))
		update(t, path, into("new"))
		hasContents(t, path, "new")
		info := must(os.Lstat(path))(t)
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 2345 || info.Mode() != mode {
			t.Errorf("owner is %d:%d, mode %v; want 1234:2345 and %v", st.Uid, st.Gid, info.Mode(), mode)
		}
	}
}

func TestUpdate_FIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	check(t, syscall.Mkfifo(path, 0o600))
	refused(t, path)
	// Nor is one at the temporary name waited for.
	path = filepath.Join(t.TempDir(), "f")
	check(t, syscall.Mkfifo(filepath.Join(filepath.Dir(path), ".f.holdfast-tmp"), 0o600))
	promptly(t, "Update", func() { update(t, path, into("new")) })
	hasContents(t, path, "new")
}

func TestUpdate_ReadOnlyFolder(t *testing.T) {
	if !asNobody(t) {
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	putFile(t, path, []byte("old"), time.Time{})
	for _, mode := range []fs.FileMode{0o500, 0o100} {
		chmod(t, dir, mode)
		err := lock.Update(t.Context(), path, into("new"))
		chmod(t, dir, 0o700)
		wantErr(t, err, fs.ErrPermission, mode)
		hasContents(t, path, "old")
	}
	// A file that may not be read is not taken for one that does not exist.
	chmod(t, path, 0o200)
	err := lock.Update(t.Context(), path, func([]byte) ([]byte, error) { t.Error("called"); return nil, nil })
	wantErr(t, err, fs.ErrPermission, "unreadable file")
	chmod(t, path, 0o600)
	hasContents(t, path, "old")
}

// TestUpdate_FileSizeLimit: a write that is cut short by the system.
func TestUpdate_FileSizeLimit(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{}) {
		return
	}
	path := filepath.Join(t.TempDir(), "f")
	update(t, path, into("old"))
	unlimited := setLimit(t, syscall.RLIMIT_FSIZE, 1<<16)
	err := lock.Update(t.Context(), path, into(strings.Repeat("x", 1<<17)))
	unlimited()
	wantErr(t, err, syscall.EFBIG)
	hasContents(t, path, "old")
	update(t, path, into("new"))
	hasContents(t, path, "new")
}

func TestUpdate_FullDisk(t *testing.T) {
	if !withMounts(t) {
		return
	}
	path := filepath.Join(mount(t, "tmpfs", "size=256k"), "f")
	old := strings.Repeat("o", 100_000)
	update(t, path, into(old))
	for _, size := range []int{200_000, 1_000_000} {
		err := lock.Update(t.Context(), path, into(strings.Repeat("x", size)))
		wantErr(t, err, syscall.ENOSPC, size, "bytes")
		hasContents(t, path, old)
	}
	update(t, path, into("new"))
	hasContents(t, path, "new")
}
