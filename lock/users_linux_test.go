package lock_test

import (
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
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// One group's number, and three users who are in it.
const usersGroup = 4242

var users = []string{"0", "65534", "12345"}

func init() {
	become = func(uid string) {
		n, _ := strconv.Atoi(uid)
		syscall.Umask(0o077)
		if err := errors.Join(syscall.Setgroups([]int{usersGroup}), syscall.Setgid(n), syscall.Setuid(n)); err != nil {
			fmt.Println("error:", err)
		}
	}
}

// userOf starts a process of a user, with a file's mode.
func userOf(t *testing.T, uid, perm, path string) *child {
	t.Helper()
	c := start(t, "member", path)
	c.Order("become " + uid)
	c.Order("perm " + perm)
	return c
}

// folderOf makes a folder that other users come to.
func folderOf(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be several users")
	}
	needsTidying(t)
	dir := t.TempDir()
	check(t, os.Chmod(filepath.Dir(dir), 0o755))
	check(t, os.Chown(dir, 0, usersGroup))
	check(t, os.Chmod(dir, mode))
	return dir
}

// pairs calls a test for each two users, each way.
func pairs(t *testing.T, mode fs.FileMode, test func(t *testing.T, dir, first, second string)) {
	for _, first := range users {
		for _, second := range users {
			if first != second {
				t.Run(first+" and "+second, func(t *testing.T) { test(t, folderOf(t, mode), first, second) })
			}
		}
	}
}

// shared are folders that users have together. A sticky one is like /tmp.
var sharedFolders = []struct {
	name   string
	mode   fs.FileMode
	perm   string
	sticky bool
}{
	{"group", fs.ModeSetgid | 0o770, "660", false},
	{"all", 0o777, "666", false},
	{"sticky", fs.ModeSticky | 0o777, "666", true},
	{"readable", 0o777, "644", false},
}

// TestUsers: users of one folder exclude each other, wait in one queue, see each other, and
// take over from each other's dead; but not where only its owner may remove a file: then
// they are told so, and nothing is left behind.
func TestUsers(t *testing.T) { // guards: S17
	for _, folder := range sharedFolders {
		t.Run(folder.name, func(t *testing.T) {
			pairs(t, folder.mode, func(t *testing.T, dir, first, second string) {
				path := filepath.Join(dir, ".lock")
				a, b := userOf(t, first, folder.perm, path), userOf(t, second, folder.perm, path)
				refused := folder.sticky && second != "0"
				stays := func(name string) {
					t.Helper()
					info := must(os.Stat(name))(t)
					want := "0" + folder.perm
					if folder.perm == "644" && strings.HasSuffix(name, ".flock") {
						want = "0666" // the queue of all
					}
					if fmt.Sprintf("%04o", info.Mode().Perm()) != want {
						t.Errorf("the mode of %s is %v", name, info.Mode())
					}
					if gid := info.Sys().(*syscall.Stat_t).Gid; folder.mode&fs.ModeSetgid != 0 && gid != usersGroup {
						t.Errorf("the group of %s is %d", name, gid)
					}
				}

				a.Do("try", "held")
				stays(path)
				stays(path + ".flock")
				name := map[string]string{"0": "root", "65534": "nobody", "12345": "12345"}[first]
				if got := getClaim(t, path); got.User != name && got.User != first {
					t.Errorf("the user is %q; want %s", got.User, name)
				} else {
					b.Do("status", "held, kernel lock held, "+got.User)
				}
				b.Do("try", "locked: kernel lock held")
				b.Do("acquire", "waiting")
				a.Do("release", "released")
				b.Expect("held")
				b.Do("release", "released")

				a.Do("try-shared", "held")
				if refused {
					if said := b.Say("try-shared"); !strings.Contains(said, "sticky") || !strings.Contains(said, "root may remove it") {
						t.Errorf("to read with another, in a sticky folder: %s", said)
					}
				} else {
					b.Do("try-shared", "held")
				}
				a.Do("release", "released")
				if !refused {
					b.Do("release", "released")
				}
				if got := names(t, dir); got != ".lock.flock" {
					t.Fatalf("after the last reader there are %s", got)
				}

				a.Do("try", "held")
				a.Kill()
				b.Do("status", "dead, kernel lock free, "+getClaim(t, path).User)
				if refused {
					contains(t, b.Say("try"), "sticky", "to take over, in a sticky folder")
					if got := names(t, dir); got != ".lock .lock.flock" {
						t.Fatalf("after a refusal there are %s", got)
					}
					b = userOf(t, first, folder.perm, path)
				}
				b.Do("try", "held")
				b.Do("release", "released")

				// A reclaimer that died has left its marker.
				for _, step := range []string{lock.StepClaimed, lock.StepDeadRemoved} {
					a = userOf(t, first, folder.perm, path)
					a.Order("park " + step)
					a.Do("try", "parked")
					a.Kill()
					if step == lock.StepClaimed {
						stays(path)
						continue
					}
					stays(path + ".reclaim")
				}
				b.Do("try", "held")
				b.Do("release", "released")
				if got := names(t, dir); got != ".lock.flock" && !refused {
					t.Errorf("in the end there are %s", got)
				}
			})
		})
	}
}

// TestUsers_OneOnly: who did not ask for others' rights gives none; others are told why.
func TestUsers_OneOnly(t *testing.T) { // guards: S17
	needsKernelList(t)
	pairs(t, 0o777, func(t *testing.T, dir, first, second string) {
		if second == "0" {
			return // nobody refuses root
		}
		path := filepath.Join(dir, ".lock")
		a, b := userOf(t, first, "0", path), userOf(t, second, "0", path)
		a.Do("try", "held")
		before := names(t, dir)
		said := b.Say("try")
		for _, part := range []string{"permission denied", "with mode 0600", "0660 for a group"} {
			that(t, strings.Contains(said, part), "refused with %q; want %q in it", said, part)
		}
		b.Do("status", "held, kernel lock held, not permitted")
		equal(t, names(t, dir), before)
		a.Kill()
		b.Do("status", "unknown, not permitted to read it, not permitted")
	})
}

// TestUsers_Tidy: nothing is left of a lock that several users tidy up.
func TestUsers_Tidy(t *testing.T) { // guards: S17
	pairs(t, fs.ModeSetgid|0o770, func(t *testing.T, dir, first, second string) {
		path := filepath.Join(dir, ".lock")
		a, b := userOf(t, first, "660", path), userOf(t, second, "660", path)
		a.Order("tidy")
		b.Order("tidy")
		a.Do("try", "held")
		a.Do("release", "released")
		b.Do("try", "held")
		b.Do("release", "released")
		equal(t, names(t, dir), "")
	})
}

// TestUsers_Break: root, who clears a lock away, leaves a queue that its users can open.
func TestUsers_Break(t *testing.T) { // guards: S17
	dir := folderOf(t, fs.ModeSetgid|0o770)
	path := filepath.Join(dir, ".lock")
	dead := userOf(t, "12345", "660", path)
	dead.Do("try", "held")
	dead.Kill()
	check(t, os.Remove(path+".flock"))
	equal(t, must((lock.File{Path: path}).Break(t.Context()))(t).State, evidence.Dead)
	next := userOf(t, "65534", "660", path)
	next.Do("try", "held")
	next.Do("release", "released")
}

// TestTidy_OthersFiles: what only others may remove stays, and is named with the reason.
func TestTidy_OthersFiles(t *testing.T) { // guards: S17
	dir := folderOf(t, fs.ModeSticky|0o777)
	path := filepath.Join(dir, ".lock")
	dead := userOf(t, "12345", "666", path)
	dead.Do("try", "held")
	dead.Kill()
	tidier := userOf(t, "65534", "666", path)
	tidier.Do("tidy folder", ".lock stays .lock.flock stays ")
	root := userOf(t, "0", "666", path)
	root.Do("tidy folder", ".lock goes .lock.flock goes ")
}

// TestPerm_Folders: those that a Dir makes let in whom its locks let in.
func TestPerm_Folders(t *testing.T) {
	dir := folderOf(t, fs.ModeSetgid|0o770)
	defer syscall.Umask(syscall.Umask(0o077))
	d := lock.Dir{Path: filepath.Join(dir, "locks"), File: lock.File{Perm: 0o660}}
	held := holdKey(t, d, lock.Key{Space: "agent", Name: "7"})
	defer held.Release()
	for _, folder := range []string{d.Path, filepath.Join(d.Path, "agent")} {
		info := must(os.Stat(folder))(t)
		equal(t, info.Mode(), fs.ModeDir|fs.ModeSetgid|0o770, folder, "has")
	}
}

// TestPerm_DefaultACL: what the folder's ACL takes away stays away; the umask plays no part.
func TestPerm_DefaultACL(t *testing.T) { // guards: S17
	needsMarks(t) // so that this is Linux's own path, which knows ACLs
	dir := t.TempDir()
	acl := []byte{2, 0, 0, 0} // version 2; then tag, rights and id of each entry
	for _, e := range [][2]byte{{0x01, 6}, {0x04, 4}, {0x20, 0}} {
		acl = append(acl, e[0], 0, e[1], 0, 0xff, 0xff, 0xff, 0xff)
	}
	if err := syscall.Setxattr(dir, "system.posix_acl_default", acl, 0); err != nil {
		t.Skip("needs a filesystem with ACLs: ", err)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	f := lock.File{Path: filepath.Join(dir, ".lock"), Perm: 0o666}
	held := tryHold(t, f)
	defer letGo(t, held)
	for _, path := range []string{f.Path, f.Path + ".flock"} {
		info := must(os.Stat(path))(t)
		if info.Mode().Perm() != 0o640 {
			t.Errorf("%s has %v; want what the ACL leaves", path, info.Mode())
		}
	}
	that(t, platform.HasDefaultACL(dir), "the ACL is not seen")
}

// TestPerm_Invalid: a mode that can't be a lock's is refused, and nothing written.
func TestPerm_Invalid(t *testing.T) {
	for _, perm := range []fs.FileMode{0o777, 0o066, 0o400, 0o1600, fs.ModeSetuid | 0o600} {
		dir := t.TempDir()
		_, err := lock.File{Path: filepath.Join(dir, ".lock"), Perm: perm}.TryAcquire(t.Context())
		if !errors.Is(err, lock.ErrInvalidName) || names(t, dir) != "" {
			t.Errorf("%v: %v, and there are %q", perm, err, names(t, dir))
		}
	}
}

// TestPerm_FolderReplaced: who puts a link in the place of a folder that is just being made
// has no other folder opened for all.
func TestPerm_FolderReplaced(t *testing.T) {
	dir, others := t.TempDir(), t.TempDir()
	check(t, os.Chmod(others, 0o700))
	at := filepath.Join(dir, "agent")
	check(t, os.Symlink(others, at))
	that(t, lock.WidenFolder(at, 0o777, time.Now()) != nil, "a link was taken for the folder")
	info := must(os.Stat(others))(t)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("another folder has %v", info.Mode())
	}
}

// TestUsers_NoteMakesSibling: a note makes a sibling that a hand has removed for all users of
// the lock.
func TestUsers_NoteMakesSibling(t *testing.T) {
	pairs(t, fs.ModeSetgid|0o770, func(t *testing.T, dir, first, second string) {
		path := filepath.Join(dir, ".lock")
		a, b := userOf(t, first, "660", path), userOf(t, second, "660", path)
		a.Do("try", "held")
		check(t, os.Remove(path+".flock"))
		a.Do("note step 2", "noted")
		a.Do("release", "released")
		b.Do("try", "held")
		b.Do("release", "released")
	})
}

// TestUsers_NoteAbove: so does the note of a child.
func TestUsers_NoteAbove(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), Perm: 0o660}
	held := tryHold(t, f)
	defer letGo(t, held)
	check(t, os.Remove(f.Path+".flock"))
	_, value, _ := strings.Cut(held.Environ(nil)[0], "=")
	t.Setenv("HOLDFAST_HELD", value)
	check(t, lock.NoteAbove("", "step 2"))
	info := must(os.Stat(f.Path + ".flock"))(t)
	if info.Mode().Perm() != 0o660 {
		t.Errorf("the sibling has %v", info.Mode())
	}
}
