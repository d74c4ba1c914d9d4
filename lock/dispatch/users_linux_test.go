package dispatch_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/dispatch"
)

func init() {
	become = func(uid string) error {
		n, err := strconv.Atoi(uid)
		syscall.Umask(0o077)
		return errors.Join(err, syscall.Setgroups(nil), syscall.Setgid(n), syscall.Setuid(n))
	}
}

// eachUser calls a test for root and an ordinary user, and for two of those, each way. The folder
// is one that both may write to.
func eachUser(t *testing.T, mode fs.FileMode, test func(t *testing.T, dir, firstName, secondName string, first, second *testkit.Child)) {
	testkit.NeedsRoot(t, "be several users")
	names := map[string]string{"0": "root", "65534": "nobody", "12345": "12345"}
	for _, pair := range [][2]string{{"0", "12345"}, {"12345", "0"}, {"12345", "65534"}} {
		t.Run(names[pair[0]]+" and "+names[pair[1]], func(t *testing.T) {
			dir := t.TempDir()
			check(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, mode)))
			var users []*testkit.Child
			for _, uid := range pair {
				c := startChild(t, dir)
				c.Do("become "+uid, "<nil>")
				users = append(users, c)
			}
			test(t, dir, names[pair[0]], names[pair[1]], users[0], users[1])
		})
	}
}

// said checks the answer to an order.
func said(t *testing.T, c *testkit.Child, order string, want ...string) {
	t.Helper()
	answer := c.Say(order)
	for _, part := range want {
		that(t, strings.Contains(answer, part), "%s: %s; want %q in it", order, answer, part)
	}
}

// TestUsers: users of one folder read each other's claims, as the format's own programs do,
// exclude each other, and take over from each other's dead; whatever their umask.
func TestUsers(t *testing.T) {
	eachUser(t, 0o777, func(t *testing.T, dir, _, _ string, first, second *testkit.Child) {
		said(t, first, id, "claimed ")
		if info, err := os.Lstat(lockPath(dir)); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%v, %v; want mode 0644", info.Mode(), err)
		}
		second.Do("read", "true <nil>")
		said(t, second, id, "error: dispatch: held by pid "+strconv.Itoa(first.Cmd.Process.Pid), "kernel lock held")
		first.Do("release", "released <nil>")
		equal(t, testkit.Names(t, dir), "", "left behind")
		said(t, second, id, "claimed ")
		said(t, first, id, "error: dispatch: held by pid ")
		second.Do("release", "released <nil>")
		said(t, first, id, "claimed ")
		first.Kill()
		said(t, second, id, "claimed ")
		second.Do("release", "released <nil>")
	})
}

// TestUsers_Conflict: a file of another user's that this one may not use, or remove, is a
// conflict that says whose it is, and what helps.
func TestUsers_Conflict(t *testing.T) {
	for name, suffix := range map[string]string{"claim": "", "marker": ".reclaim", "queue": ".flock"} {
		t.Run(name, func(t *testing.T) {
			eachUser(t, 0o777, func(t *testing.T, dir, firstName, secondName string, first, second *testkit.Child) {
				if secondName == "root" {
					return // nobody refuses root
				}
				path := lockPath(dir) + suffix
				if suffix == ".reclaim" {
					put(t, lockPath(dir), foreign(t, nil))
				}
				put(t, path, foreign(t, nil))
				if suffix == ".flock" {
					put(t, path, nil)
				}
				uid := map[string]int{"root": 0, "12345": 12345}[firstName]
				check(t, errors.Join(os.Chmod(path, 0o600), os.Chown(path, uid, uid)))
				want := []string{"error: dispatch: ", path, firstName + "'s, with mode 0600", "ask that user, or root, to remove it"}
				if suffix == ".reclaim" { // which anybody may remove
					want = []string{"error: dispatch: ", path, "if no dispatcher is at work, remove the marker"}
				}
				said(t, second, id, want...)
				check(t, os.Remove(path))
				said(t, second, id, "claimed ")
			})
		})
	}
}

// TestUsers_Sticky: nor can a dead holder's claim be taken over where only its owner may
// remove it.
func TestUsers_Sticky(t *testing.T) {
	eachUser(t, fs.ModeSticky|0o777, func(t *testing.T, dir, firstName, secondName string, first, second *testkit.Child) {
		said(t, first, id, "claimed ")
		said(t, second, id, "error: dispatch: held by pid ")
		first.Kill()
		if secondName == "root" {
			said(t, second, id, "claimed ")
			return
		}
		said(t, second, id, "error: dispatch: "+lockPath(dir), firstName+"'s, with mode 0644", "ask that user, or root, to remove it")
	})
}

// TestMode: whatever the umask, all who come to the folder may read a claim, and none but its
// owner write to it; and all stand in one queue.
func TestMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	claim := acquire(t, dir)
	defer claim.Release()
	for path, want := range map[string]fs.FileMode{lockPath(dir): 0o644, lockPath(dir) + ".flock": 0o666} {
		equal(t, must(os.Lstat(path))(t).Mode().Perm(), want)
	}
}

// TestAcquire_Unreadable: a claim that this user may not read is a conflict that says so.
func TestAcquire_Unreadable(t *testing.T) {
	if !testkit.AsNobody(t) {
		return
	}
	dir := t.TempDir()
	put(t, lockPath(dir), foreign(t, nil))
	check(t, os.Chmod(lockPath(dir), 0))
	claim, err := dispatch.Locks{Dir: dir}.Acquire(t.Context(), id)
	var c *dispatch.ConflictError
	if !errors.As(err, &c) || c.Holder != nil {
		t.Fatalf("%+v, %v; want a conflict", claim, err)
	}
	for _, part := range []string{lockPath(dir), "'s, with mode 0000", "not for this user to read", "ask that user, or root"} {
		that(t, strings.Contains(c.Detail, part), "no %q in: %s", part, c.Detail)
	}
}

// TestUsers_HeldConflict: whoever may not even stand in the queue is told who has the claim, and
// not to have anything removed: that would let a second one in.
func TestUsers_HeldConflict(t *testing.T) {
	eachUser(t, 0o777, func(t *testing.T, dir, firstName, secondName string, first, second *testkit.Child) {
		if secondName == "root" {
			return // nobody refuses root
		}
		said(t, first, id, "claimed ")
		check(t, os.Chmod(lockPath(dir)+".flock", 0o600))
		answer := second.Say(id)
		if want := "error: dispatch: held by pid " + strconv.Itoa(first.Cmd.Process.Pid); !strings.Contains(answer, want) || strings.Contains(answer, "remove") {
			t.Errorf("%s; want %q, and no word of removing anything", answer, want)
		}
	})
}
