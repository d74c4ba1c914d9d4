package platform_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

// TestUser: by whose rights the process works now, not when it was first asked.
func TestUser(t *testing.T) {
	testkit.NeedsRoot(t, "become somebody else")
	if !testkit.InChild(t, &syscall.SysProcAttr{}) {
		return
	}
	equal(t, platform.User(), platform.UserName(0), "root")
	check(t, testkit.BecomeNobody())
	if got := platform.User(); got != platform.UserName(testkit.Nobody) || got == platform.UserName(0) {
		t.Errorf("nobody is %q", got)
	}
}

func TestUserName(t *testing.T) {
	for uid, want := range map[int]string{0: "root", -1: "", 1<<31 - 7: strconv.Itoa(1<<31 - 7)} {
		equal(t, platform.UserName(uid), want, uid)
	}
}

// TestKeptBySticky: in a sticky folder only a file's owner, the folder's and root may remove it.
func TestKeptBySticky(t *testing.T) {
	if !testkit.AsNobody(t) {
		return
	}
	self, another := os.Geteuid(), os.Geteuid()+1
	dir := t.TempDir()
	folder := func(name string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		check(t, os.Mkdir(path, 0o700))
		check(t, os.Chmod(path, mode))
		return filepath.Join(path, "file")
	}
	ours, plain := folder("ours", 0o777|fs.ModeSticky), folder("plain", 0o777)
	tests := map[string]struct {
		path  string
		owner int
		want  bool
	}{
		"another's file in our sticky folder": {ours, another, false},
		"ours in our sticky folder":           {ours, self, false},
		"another's in no sticky folder":       {plain, another, false},
		"in no folder":                        {filepath.Join(dir, "absent", "file"), another, false},
	}
	if info, err := os.Stat("/tmp"); err == nil && info.Mode()&fs.ModeSticky != 0 && info.Sys().(*syscall.Stat_t).Uid != uint32(self) {
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		for name, uid := range map[string]int{"another's in /tmp": another, "/tmp's owner's in /tmp": owner} {
			tests[name] = struct {
				path  string
				owner int
				want  bool
			}{"/tmp/file", uid, true}
		}
	}
	for name, test := range tests {
		equal(t, platform.KeptBySticky(test.path, test.owner), test.want, name)
	}
}

// TestWorkingDir_Unreachable: a folder whose filesystem was detached has no name, and none is
// made up.
func TestWorkingDir_Unreachable(t *testing.T) {
	if !testkit.WithMounts(t) {
		return
	}
	dir := t.TempDir()
	check(t, syscall.Mount("none", dir, "tmpfs", 0, ""))
	t.Chdir(dir)
	equal(t, platform.WorkingDir(), dir)
	check(t, syscall.Unmount(dir, syscall.MNT_DETACH))
	equal(t, platform.WorkingDir(), "", "detached, it")
}
