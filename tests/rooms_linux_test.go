package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// A room is where a process is put: namespaces, a /proc, a user, other clocks.
type room struct {
	name  string
	role  string // "" is rival
	flags uintptr
	mount string   // what is mounted first
	by    []string // the command that starts it
	as    string   // what the rival becomes
	// alone: its pids mean nothing to others, nor theirs to it.
	alone bool
	// blind: it has no /proc, and so can't say, or see, which machine this is.
	blind bool
}

const emptyProc, ownProc, hidingProc = "mount -t tmpfs none /proc", "mount -t proc proc /proc", "mount -t proc -o hidepid=2 proc /proc"

// otherClocks are those of a machine that was suspended for long.
var otherClocks = []string{"unshare", "--time", "--boottime", "9000000", "--monotonic", "100"}

var rooms = []room{
	{name: "here"},
	{name: "own pids", flags: syscall.CLONE_NEWPID, mount: ownProc, alone: true},
	{name: "own pids, no proc", flags: syscall.CLONE_NEWPID, mount: emptyProc, alone: true, blind: true},
	{name: "own pids, others' proc", flags: syscall.CLONE_NEWPID, alone: true},
	{name: "no proc", mount: emptyProc, blind: true},
	{name: "own clocks", by: otherClocks},
	{name: "own pids and clocks", flags: syscall.CLONE_NEWPID, mount: ownProc, by: otherClocks, alone: true},
	{name: "own users", flags: syscall.CLONE_NEWUSER},
	{name: "own users and pids", flags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID, mount: ownProc, alone: true},
	{name: "other user", as: "nobody"},
	{name: "other user, pids hidden", mount: hidingProc, as: "nobody"},
	{name: "first thread gone", role: "rival without first thread", as: "as it is"},
}

func init() {
	if testkit.Role() == "rival without first thread" {
		testkit.WithoutFirstThread(func() {
			if err := rival(os.Args[1:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		})
	}
}

// start starts a rival in the room.
func (r room) start(t *testing.T, oracle string) *testkit.Child {
	t.Helper()
	role, args := r.role, []string{oracle, r.as}
	if role == "" {
		role = "rival"
	}
	inside := testkit.Command(t, role, args...)
	cmd := exec.Command("sh", append([]string{"-c", strings.TrimPrefix(r.mount+` && exec "$@"`, " && "), "sh"}, append(r.by, inside.Args...)...)...)
	cmd.Env, cmd.Stderr = inside.Env, inside.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: r.flags}
	if r.mount != "" {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if r.flags&syscall.CLONE_NEWUSER != 0 {
		own := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = own, own
	}
	return testkit.StartCommand(t, cmd)
}

// judge starts a rival in the room that is to last, and skips where there can be no such room.
func (r room) judge(t *testing.T, path, oracle string) *testkit.Child {
	t.Helper()
	c := r.start(t, oracle)
	c.Order("hold " + path)
	if line, _ := c.Line(); line != "hold" {
		t.Skipf("needs namespaces, and unshare(1) of util-linux, to have a room with %s: %s", r.name, line)
	}
	if claimAt(t, path).TimeNamespace == platform.Self().TimeNamespace && r.by != nil {
		t.Skip("needs Linux 6.1, to enter a time namespace by exec")
	}
	c.Do("release "+path, "release")
	return c
}

func claimAt(t *testing.T, path string) (claim evidence.Claim) {
	t.Helper()
	data := must(os.ReadFile(path))(t)
	check(t, json.Unmarshal(data, &claim))
	return claim
}

// folderForAll is one that every user can reach, and write.
func folderForAll(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Chmod(filepath.Dir(dir), 0o755))
	check(t, os.Chmod(dir, 0o777))
	return dir
}

// withoutKernelLocks gives a way to a folder on which flock(2) is unknown.
func withoutKernelLocks(t *testing.T, dir string) string {
	t.Helper()
	fsys := throughLiar(t, dir, 0)
	fsys.answerLocks("ENOSYS")
	check(t, os.Chmod(filepath.Dir(fsys.dir), 0o755))
	return fsys.dir
}

// canTell reports whether a process in one room can look at one in another, and knows that it
// is the one meant.
func canTell(a, b room) bool { return !a.alone && !b.alone && !a.blind && !b.blind }

// TestRooms: wherever the holder is put, and wherever somebody else, they exclude each other.
// When the holder is killed, its lock is had at once, where the kernel keeps locks; and where
// it does not, by those who can look at the holder. The others leave it alone.
func TestRooms(t *testing.T) { // guards: E8, E1
	if !withOwnMounts(t) {
		return
	}
	dir := folderForAll(t)
	ways := map[string]string{"kernel locks": dir}
	if hasFUSE() != nil {
		t.Run("no kernel locks", func(t *testing.T) { t.Skip("needs FUSE: ", hasFUSE()) })
	} else {
		ways["no kernel locks"] = withoutKernelLocks(t, dir)
	}
	oracle := filepath.Join(t.TempDir(), "oracle")
	judges := map[string]*testkit.Child{}
	for i, r := range rooms {
		t.Run("a room with "+r.name, func(sub *testing.T) {
			path := filepath.Join(dir, fmt.Sprint("room", i))
			r.judge(sub, path, oracle)
			judges[r.name] = r.judge(t, path, oracle)
		})
	}
	for on, at := range ways {
		for h, holder := range rooms {
			if judges[holder.name] == nil {
				continue
			}
			t.Run(on+", holder in a room with "+holder.name, func(t *testing.T) {
				for j, other := range rooms {
					judge := judges[other.name]
					if judge == nil || !testkit.Sample(4) {
						continue
					}
					path := filepath.Join(at, fmt.Sprintf("%s %d-%d", on, h, j)) // the ways lead to one folder
					c := holder.start(t, oracle)
					c.Do("hold "+path, "hold")
					equal(t, judge.Say("try "+path), "locked", other.name, "while it is held")
					c.Kill()
					want, order := "lock ", "lock "+path
					if on == "no kernel locks" && !canTell(holder, other) {
						want, order = "locked", "try "+path
					}
					if said := judge.Say(order); !strings.HasPrefix(said, want) {
						t.Errorf("%s, after its death: %s", other.name, said)
					}
				}
			})
		}
	}
}

// TestRooms_Zombie: a holder that was killed, and that nobody has buried, has no lock any more.
func TestRooms_Zombie(t *testing.T) { // guards: E4
	if !withOwnMounts(t) {
		return
	}
	dir := folderForAll(t)
	oracle := filepath.Join(t.TempDir(), "oracle")
	other := rooms[0].start(t, oracle)
	for _, at := range []string{dir, withoutKernelLocks(t, dir)} {
		path := filepath.Join(at, ".lock")
		holder := rooms[0].start(t, oracle)
		holder.Do("hold "+path, "hold")
		other.Do("try "+path, "locked")
		check(t, holder.Cmd.Process.Kill())
		eventually(t, "the holder is a zombie", func() bool { return testkit.State(holder.Cmd.Process.Pid) == 'Z' })
		if said := other.Say("lock " + path); !strings.HasPrefix(said, "lock ") {
			t.Errorf("it says: %s", said)
		}
	}
}

// TestRooms_BareClaim: of another program, which takes no lock, there is nothing but the pid,
// and that tells wherever pids are the same, whatever the clocks, and who may look.
func TestRooms_BareClaim(t *testing.T) { // guards: E1
	if !withOwnMounts(t) {
		return
	}
	oracle := filepath.Join(t.TempDir(), "oracle")
	for _, r := range rooms {
		if r.alone {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			dir := folderForAll(t)
			judge := r.judge(t, filepath.Join(dir, "room"), oracle)
			program := background(t, exec.Command("sleep", "1000"))
			path := filepath.Join(dir, ".lock")
			claim := fmt.Sprintf(`{"pid":%d,"created_at":%q}`, program.Process.Pid, time.Now().UTC().Add(2*time.Second).Format(time.RFC3339))
			check(t, errors.Join(os.WriteFile(path, []byte(claim), 0o666), os.Chmod(path, 0o666))) // whatever the umask
			judge.Do("try "+path, "locked")
			program.Process.Kill()
			program.Wait()
			if said := judge.Say("lock " + path); !strings.HasPrefix(said, "lock ") {
				t.Errorf("after its death: %s", said)
			}
		})
	}
}

// TestRooms_Suspended: a holder whose machine, as it seems, was suspended for longer than its
// claim lasts is followed by who can't look at it. When it wakes up it learns that, and leaves
// its successor alone.
func TestRooms_Suspended(t *testing.T) { // guards: E6
	if !withOwnMounts(t) {
		return
	}
	at := withoutKernelLocks(t, folderForAll(t))
	oracle := filepath.Join(t.TempDir(), "oracle")
	for i, r := range rooms {
		if !r.alone {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			path := filepath.Join(at, fmt.Sprint(i))
			holder, other := r.judge(t, path, oracle), rooms[0].start(t, oracle)
			holder.Do("keep "+path, "keep")
			holder.Stop()
			other.Do("follow "+path, "follow")
			before := must(os.ReadFile(path))(t)
			holder.Continue()
			holder.Expect("lost")
			contains(t, holder.Say("release "+path), lock.ErrLost.Error(), "its release")
			after := must(os.ReadFile(path))(t)
			if claimAt(t, path).Nonce == "" || nonceOf(before) != nonceOf(after) {
				t.Errorf("its successor's claim was %s, and is %s", before, after)
			}
			other.Do("release "+path, "release")
		})
	}
}

func nonceOf(data []byte) string {
	var claim evidence.Claim
	_ = json.Unmarshal(data, &claim)
	return claim.Nonce
}
