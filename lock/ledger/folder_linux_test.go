package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

func init() {
	roles["limited"] = limited
	roles["nobody"] = nobody
}

// limited appends where a file can't get large.
func limited(dir string) error {
	l := ledger.Ledger{Dir: dir}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		return err
	}
	large := []byte(`"` + strings.Repeat("x", 8192) + `"`)
	_, err := l.Append(context.Background(), large)
	_, err2 := l.AppendBatch(context.Background(), [][]byte{[]byte("1"), large})
	return fmt.Errorf("%w; %w", err, err2)
}

// nobody reads, and appends, without any rights.
func nobody(dir string) error {
	if err := testkit.BecomeNobody(); err != nil {
		return err
	}
	l := ledger.Ledger{Dir: dir}
	read := 0
	for _, err := range l.Events(0) {
		if err != nil {
			return err
		}
		read++
	}
	last, err := l.Sequence()
	if err != nil {
		return err
	}
	_, err = l.Append(context.Background(), []byte("1"))
	return fmt.Errorf("read %d of %d; %w", read, last, err)
}

// TestAppend_NoRoom: a write that fails in the middle leaves nothing behind, and
// loses nothing.
func TestAppend_NoRoom(t *testing.T) {
	l := filled(t, 2)
	c, line := start(t, "limited", l.Dir)
	c.Kill()
	that(t, strings.Count(line, "file too large") == 2 && strings.Contains(line, at(l, ".event-")), "the errors: %s", line)
	equal(t, files(t, l), "event-000001.json event-000002.json", "left behind")
	appends(t, l, "3", 3)
	holds(t, l, "1", "2", "3")
}

// tmpfs mounts one of its own.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	testkit.NeedsRoot(t, "mount a filesystem")
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); errors.Is(err, fs.ErrPermission) {
		t.Skip("needs the right to mount a filesystem")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		noErr(t, syscall.Unmount(dir, 0))
	})
	return dir
}

// TestAppend_DiskFull: at any point at which the disk can be full, appending fails
// with an error that says so, or succeeds; and when there is room again, all that
// was reported is there, and what was not is not.
func TestAppend_DiskFull(t *testing.T) {
	l := ledger.Ledger{Dir: tmpfs(t, "size=64k,nr_inodes=64"), NoSync: true}
	appends(t, l, "0", 1)
	ballast := filepath.Join(l.Dir, "ballast")
	want := []string{"0"}
	for free := range 12 { // blocks of 4 KiB, or inodes
		for _, fill := range []func() error{
			func() error { return fillBlocks(ballast, free) },
			func() error { return fillInodes(ballast, free) },
		} {
			check(t, fill())
			failed := 0
			for i := range 3 {
				batch := [][]byte{
					fmt.Appendf(nil, `"%d %d"`, free, i),
					fmt.Appendf(nil, `"%d %d %s"`, free, i, strings.Repeat("x", 5000)),
				}[:1+i%2]
				switch _, err := l.AppendBatch(background, batch); {
				case err == nil:
					for _, event := range batch {
						want = append(want, string(event))
					}
				case !errors.Is(err, syscall.ENOSPC):
					t.Errorf("%d free: %v", free, err)
				case errors.Is(err, ledger.ErrUnfinished):
					t.Errorf("%d free: half done: %v", free, err)
				default:
					failed++
				}
			}
			that(t, free != 0 || failed != 0, "the disk was not full")
			check(t, os.RemoveAll(ballast))
			holds(t, l, want...)
			if got := files(t, l); strings.Contains(got, "tmp") || strings.Contains(got, "batch") || strings.Contains(got, "lock") {
				t.Errorf("left behind: %s", got)
			}
		}
		if err := os.RemoveAll(at(l, "")); err != nil { // or else it gets too full
			t.Fatal(err)
		}
		appends(t, l, "0", 1)
		want = []string{"0"}
	}
}

// fillBlocks makes a file that leaves so many blocks.
func fillBlocks(path string, free int) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &st); err != nil {
		return err
	}
	return os.WriteFile(path, make([]byte, max(0, int64(st.Bavail)-int64(free))*int64(st.Bsize)), 0o600)
}

// fillInodes makes files that leave so many inodes.
func fillInodes(path string, free int) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	for i := 0; ; i++ {
		var st syscall.Statfs_t
		if err := syscall.Statfs(path, &st); err != nil {
			return err
		}
		if int(st.Ffree) <= free {
			return nil
		}
		if err := os.WriteFile(filepath.Join(path, fmt.Sprint(i)), nil, 0o600); err != nil {
			return err
		}
	}
}

// TestAppend_ReadOnly: nothing can be appended on a read-only filesystem, and all
// can be read.
func TestAppend_ReadOnly(t *testing.T) {
	l := ledger.Ledger{Dir: tmpfs(t, ""), NoSync: true}
	appends(t, l, "1", 1)
	appends(t, l, "2", 2)
	check(t, syscall.Mount("none", l.Dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, err := l.Append(background, []byte("3"))
	complains(t, err, syscall.EROFS, "ledger.lock")
	holds(t, l, "1", "2")
}

// TestAppend_NotPermitted: who may only read can read, and is told why it can't
// append.
func TestAppend_NotPermitted(t *testing.T) {
	testkit.NeedsRoot(t, "give up its rights")
	defer syscall.Umask(syscall.Umask(0o022))
	dir, err := os.MkdirTemp("", "ledger") // in no folder that only root may enter
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	l := ledger.Ledger{Dir: dir}
	appends(t, l, "1", 1)
	appends(t, l, "2", 2)
	_, line := start(t, "nobody", dir)
	that(t, strings.HasPrefix(line, "read 2 of 2; ") && strings.Contains(line, "permission denied"), "nobody: %s", line)
	holds(t, l, "1", "2")
}

// TestLedger_Makes: appending makes the ledger's folder, and the one for it, and nothing
// above; reading makes nothing.
func TestLedger_Makes(t *testing.T) {
	t.Chdir(t.TempDir())
	l := ledger.Ledger{Dir: "proof"}
	if _, err := l.Sequence(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "there is no ledger in proof") {
		t.Error(err)
	}
	that(t, errOf(os.Stat("proof")) != nil, "reading made a folder")
	appends(t, l, "1", 1)
	holds(t, l, "1")
	appends(t, ledger.Ledger{Dir: "other/"}, "1", 1)
	_, err := ledger.Ledger{Dir: "absent/proof"}.Append(background, []byte("1"))
	complains(t, err, fs.ErrNotExist, "make it first")
	that(t, errOf(os.Stat("absent")) != nil, "the folder above was made")
}

// TestLedger_NoFolder: the folder above the ledger's must be there, and be one.
func TestLedger_NoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, []byte("data"), 0o600))
	inWay := fresh(t)
	check(t, os.WriteFile(filepath.Join(inWay.Dir, "ledger"), []byte("data"), 0o600))
	for dir, target := range map[string]error{
		filepath.Join(t.TempDir(), "missing", "proof"): fs.ErrNotExist,
		file:      syscall.ENOTDIR,
		inWay.Dir: syscall.ENOTDIR,
	} {
		l := ledger.Ledger{Dir: dir}
		_, err := l.Append(background, []byte("1"))
		complains(t, err, target, dir)
		_, err = l.Sequence()
		complains(t, err, target, dir)
		for _, err := range l.Events(0) {
			complains(t, err, target, dir)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "data" {
		t.Errorf("the file in its place: %q, %v", data, err)
	}
}

// TestLocked_ReleaseFails: a lock file that can't be removed undoes nothing, keeps nobody out, and
// is no error.
func TestLocked_ReleaseFails(t *testing.T) {
	if !testkit.AsNobody(t) {
		return
	}
	l := filled(t, 1)
	err := l.Locked(background, func(_ context.Context, w *ledger.Writer) error {
		_, err := w.Append([]byte("2"))
		return errors.Join(err, os.Chmod(at(l, ""), 0o555))
	})
	check(t, errors.Join(err, os.Chmod(at(l, ""), 0o755)))
	if !testkit.Exists(at(l, "ledger.lock")) {
		t.Fatal("the release has not failed")
	}
	appends(t, l, "3", 3)
	holds(t, l, "1", "2", "3")
}
