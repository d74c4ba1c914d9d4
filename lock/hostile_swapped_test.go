//go:build linux

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// What another user may do to the files of a lock between two looks at them. The cases are
// those in which the Python library filelock let a second holder in, wrote to another's file, or
// hung: CVE-2026-112906, -112908, -112934 and -112935, GHSA-9c4x-gm8v-wgc4.

// inode is the number that stands for a file at a path; 0 for none.
func inode(path string) uint64 {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// TestHostile_InodeUsedAgain: between the look at a dead claim, or a dead marker, and its
// removal another program removes it, and has the lock by a file of its own, for which it tries
// to get the same inode number, with the same size and time. That file stays, and nobody else
// has the lock. (Who looked has the dead file open until it is done with it. So its number is
// not free.)
func TestHostile_InodeUsedAgain(t *testing.T) {
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			var steps []string
			for call := 1; ; call++ {
				path := filepath.Join(t.TempDir(), "lock")
				putDeadClaim(t, path)
				dead := must(os.Lstat(path))(t)
				number := inode(path)
				successor := fmt.Sprintf(`{"pid":%010d,"created_at":"2020-01-02T03:04:05Z"}`, 1)
				calls, swapped := 0, false
				file := in(lock.File{Path: path, StaleAfter: -1}).Park(func(step string) {
					if calls++; calls != call {
						return
					}
					if data, err := os.ReadFile(path); err != nil || string(data) != deadClaim {
						return // it has the lock, and perhaps that number
					}
					swapped, steps = true, append(steps, step)
					for range 20 { // ext4 gives the lowest number that is free
						check(t, os.Remove(path))
						check(t, os.WriteFile(path, []byte(successor), 0o600))
						check(t, os.Chtimes(path, dead.ModTime(), dead.ModTime()))
						if inode(path) == number {
							break
						}
					}
				})
				held, err := file.TryAcquire(t.Context())
				if !swapped {
					check(t, err)
					letGo(t, held)
					if calls < call {
						break // there are no more steps
					}
					continue
				}
				if err == nil {
					t.Errorf("at %q: a second holder got in", steps[len(steps)-1])
					letGo(t, held)
					continue
				}
				asLocked(t, err)
				if got := string(getFile(t, path)); got != successor {
					t.Errorf("at %q: the successor's file says %q", steps[len(steps)-1], got)
				}
				isAbsent(t, path+".reclaim")
			}
			that(t, len(steps) >= 6, "swapped at %q alone", steps)
		})
	}
}

// privateFile is a file of which a link may lie in a lock's place: it must stay as it is.
func privateFile(t *testing.T, content string) (path string, unchanged func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "private")
	putFile(t, path, []byte(content), time.Now().Add(-10_000*time.Hour))
	before := must(os.Lstat(path))(t)
	return path, func() {
		t.Helper()
		after := must(os.Lstat(path))(t)
		if data := string(getFile(t, path)); data != content || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) || !os.SameFile(before, after) {
			t.Errorf("the private file was %v %s, and is %v %s: %q", before.Mode(), before.ModTime(), after.Mode(), after.ModTime(), data)
		}
	}
}

// TestHostile_HardLink: where a lock file, or a marker, is looked for, lies a further name of
// another file. That file is never written to, nor its mode changed, whatever it holds, and
// whatever rights are asked for; at most the name goes.
func TestHostile_HardLink(t *testing.T) {
	for name, content := range map[string]string{
		"data": "precious", "nothing": "", "a dead claim": deadClaim, "half a claim": `{"pid":1`, "NULs": "\x00\x00",
	} {
		for mode, in := range modes {
			t.Run(name+", "+mode, func(t *testing.T) {
				for _, file := range []lock.File{{}, {Perm: 0o666}, {StaleAfter: time.Hour}} {
					path := filepath.Join(t.TempDir(), "lock")
					file.Path = path
					private, unchanged := privateFile(t, content)
					for _, at := range []string{path, path + ".reclaim"} {
						if at != path {
							putDeadClaim(t, path) // so that the marker is looked at
						}
						if os.Remove(at); os.Link(private, at) != nil {
							t.Skip("needs hard links")
						}
						held, err := in(file).TryAcquire(t.Context())
						unchanged()
						if err == nil {
							unchanged()
							letGo(t, held)
						} else {
							asLocked(t, err)
						}
						in(file).Inspect(t.Context())
						in(file).Break(t.Context())
						unchanged()
						os.Remove(at)
					}
				}
			})
		}
	}
}

// TestHostile_SwappedWhileHeld: what another renames over a lock file that is held, and links to
// its place, is neither written to nor waited for, at a renewal, a note, or the release; and the
// holder is told.
func TestHostile_SwappedWhileHeld(t *testing.T) {
	swaps := map[string]func(t *testing.T, path string){
		"hard link": func(t *testing.T, path string) {
			private, unchanged := privateFile(t, "precious")
			check(t, os.Link(private, path))
			t.Cleanup(unchanged)
		},
	}
	for what := range intruders {
		swaps[what] = func(t *testing.T, path string) { put(t, what, path) }
	}
	for what, swap := range swaps {
		for _, how := range []string{"release", "note", "renewal"} {
			t.Run(what+", "+how, func(t *testing.T) {
				in := modes["kernel lock"]
				if how == "renewal" {
					in = modes["fallback"]
				}
				dir := t.TempDir()
				// In fallback mode the claim is renewed each ten milliseconds.
				file := in(lock.File{Path: filepath.Join(dir, "lock"), StaleAfter: 30 * time.Millisecond})
				held := tryHold(t, file)
				defer held.Release() // of a test that is skipped
				check(t, os.Rename(file.Path, file.Path+".away"))
				swap(t, file.Path)
				before := treeState(t, dir, "lock.flock", "lock.away")
				switch how {
				case "renewal":
					promptly(t, "a renewal that finds out", func() { <-held.Lost() })
				case "note":
					promptly(t, "a note", func() { _ = held.Note("step 2") })
				}
				promptly(t, "Release", func() {
					wantErr(t, held.Release(), lock.ErrLost, "Release")
				})
				sameTree(t, before, treeState(t, dir, "lock.flock", "lock.away"))
			})
		}
	}
}

// TestDir_MadeByOthers: who makes the folder of a Dir first, in a folder where anybody may, could
// remove any lock in it. That is refused, to root as well, before anything is made there; but not
// where the locks are for others, too, nor where the folder above is not open to all.
func TestDir_MadeByOthers(t *testing.T) {
	folder := folderOf(t, fs.ModeSticky|0o777)
	for _, uid := range users {
		for _, test := range []struct {
			name          string
			sticky        bool
			owner         string // of the folder of the locks
			perm          string
			space, refuse bool
		}{
			{"another's", true, "4711", "0", false, true},
			{"another's space", true, uid, "0", true, true},
			{"shared", true, "4711", "666", false, false},
			{"one's own", true, uid, "0", false, false},
			{"root's", true, "0", "0", false, false},
			{"not sticky above", false, "4711", "0", false, false},
		} {
			t.Run(test.name+", user "+uid, func(t *testing.T) {
				above := must(os.MkdirTemp(folder, ""))(t)
				mode := fs.FileMode(0o777)
				if test.sticky {
					mode |= fs.ModeSticky
				}
				check(t, os.Chmod(above, mode))
				d := lock.Dir{Path: filepath.Join(above, "locks")}
				owner := must(strconv.Atoi(test.owner))(t)
				make := func(path string, owner int, mode fs.FileMode) {
					check(t, errors.Join(os.Mkdir(path, 0o700), os.Chown(path, owner, -1), os.Chmod(path, mode)))
				}
				make(d.Path, owner, 0o777)
				refused := d.Path
				if test.space {
					check(t, os.Chmod(d.Path, 0o777|fs.ModeSticky))
					refused = filepath.Join(d.Path, "agent")
					make(refused, 4711, 0o777)
				}
				before := treeState(t, above)
				c := userOf(t, uid, test.perm, d.Path)
				c.Order("key agent 7")
				said := c.Say("try")
				if !test.refuse {
					equal(t, said, "held", "said")
					return
				}
				for _, part := range []string{"make folder for ", "permission denied", refused + " is 4711's"} {
					that(t, strings.Contains(said, part), "said %q; want %q in it", said, part)
				}
				sameTree(t, before, treeState(t, above))
			})
		}
	}
}

// TestDir_FoldersOfOne: nobody else may write to the folders that a Dir makes for one user,
// whatever the umask.
func TestDir_FoldersOfOne(t *testing.T) {
	for _, umask := range []int{0, 0o002, 0o022} {
		d := lock.Dir{Path: filepath.Join(t.TempDir(), "locks")}
		old := syscall.Umask(umask)
		held, err := d.TryAcquire(context.Background(), lock.Key{Space: "s", Name: "n"})
		syscall.Umask(old)
		check(t, err)
		for _, folder := range []string{d.Path, filepath.Join(d.Path, "s")} {
			info := must(os.Stat(folder))(t)
			if info.Mode().Perm() != 0o755 {
				t.Errorf("umask %04o: %s has %v", umask, folder, info.Mode())
			}
		}
		check(t, held.Release())
	}
}
