package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// fullFilesystems are small ones that are filled with files of so many bytes, or made read-only.
var fullFilesystems = map[string]struct {
	make func(*testing.T) string
	size int
}{
	"tmpfs without space": {func(t *testing.T) string { return testkit.Mount(t, "tmpfs", "size=256k") }, 4096},
	"tmpfs without files": {func(t *testing.T) string { return testkit.Mount(t, "tmpfs", "size=4m,nr_inodes=100") }, 0},
	"ext4 without space":  {func(t *testing.T) string { return smallExt4(t, "-N", "1024") }, 1024},
	"ext4 without files":  {func(t *testing.T) string { return smallExt4(t, "-N", "128") }, 0},
}

// smallExt4 gives a folder on an ext4 of 1 MiB, with blocks of 1 KiB.
func smallExt4(t *testing.T, options ...string) string {
	t.Helper()
	image, at := filepath.Join(t.TempDir(), "image"), t.TempDir()
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 1<<20))
	args := append([]string{"-q", "-F", "-b", "1024", "-m", "0", "-O", "^has_journal"}, options...)
	if out, err := exec.Command("mkfs.ext4", append(args, image)...).CombinedOutput(); err != nil {
		t.Skipf("needs mkfs.ext4, to make a small filesystem: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, at).CombinedOutput(); err != nil {
		t.Skipf("needs root, and loop devices, to mount an image: %v: %s", err, out)
	}
	t.Cleanup(func() {
		noErr(t, syscall.Unmount(at, syscall.MNT_DETACH))
	})
	return at
}

// fill makes files until there is no room for another, removes so many of them, and returns
// how to remove the rest.
func fill(t *testing.T, dir string, size, room int) (empty func()) {
	t.Helper()
	folder := filepath.Join(dir, "filler")
	check(t, os.Mkdir(folder, 0o755))
	name := func(i int) string { return filepath.Join(folder, fmt.Sprint(i)) }
	n := 0
	for ; ; n++ {
		err := os.WriteFile(name(n), make([]byte, size), 0o600)
		if errors.Is(err, syscall.ENOSPC) {
			os.Remove(name(n))
			break
		}
		check(t, err)
	}
	for i := range min(room, n) {
		check(t, os.Remove(name(n-1-i)))
	}
	return func() { check(t, os.RemoveAll(folder)) }
}

// TestFull: with no space left, or for no further file, or for only a few, what the library is
// asked for succeeds, or says at once what is missing. When there is room again, nothing is
// lost, and the lock is anybody's.
func TestFull(t *testing.T) { // guards: H4
	if !withOwnMounts(t) {
		return
	}
	for name, fsys := range fullFilesystems {
		t.Run(name, func(t *testing.T) {
			at := fsys.make(t)
			everyOp(t, at, at, syscall.ENOSPC, func(t *testing.T, room int) func() { return fill(t, at, fsys.size, room) }, 4)
		})
	}
}

// TestReadOnly: a filesystem that becomes read-only, as ext4 does when its disk fails, and can be
// written again later.
func TestReadOnly(t *testing.T) { // guards: H4
	if !withOwnMounts(t) {
		return
	}
	dir := t.TempDir()
	fsys := throughLiar(t, dir, 0)
	everyOp(t, fsys.dir, dir, syscall.EROFS, func(*testing.T, int) func() {
		fsys.process.Do("read-only", "done")
		return func() { fsys.disarm() }
	}, 1)
}

// everyOp does all of lieOps on a filesystem that begins to fail in between, with more or less
// room each time.
func everyOp(t *testing.T, at, below string, want error, begin func(*testing.T, int) (end func()), rooms int) {
	oracleAt := filepath.Join(t.TempDir(), "oracle")
	o := must(openOracle(oracleAt))(t)
	dead := deadClaim(t, filepath.Join(at, "dead"), oracleAt)
	other := testkit.Start(t, "rival", oracleAt)
	for name, op := range lieOps {
		t.Run(name, func(t *testing.T) {
			for room := range rooms {
				folder := strings.ReplaceAll(name, " ", "-")
				l := &lie{t: t, dir: filepath.Join(at, folder), below: filepath.Join(below, folder), dead: dead, rival: other, oracle: o}
				check(t, os.Mkdir(l.below, 0o755))
				do, then := op(l)
				end := begin(t, room)
				var err error
				testkit.Promptly(t, name, func() { err = do(context.Background()) })
				end()
				if err != nil && (!errors.Is(err, want) || errors.As(err, new(*lock.LockedError))) {
					t.Errorf("the error is %v", err)
				}
				then(err)
				if t.Failed() {
					t.Fatalf("so with room for %d: %v; there are %q", room, err, namesIn(t, l.below))
				}
				check(t, os.RemoveAll(l.below))
			}
		})
	}
}
