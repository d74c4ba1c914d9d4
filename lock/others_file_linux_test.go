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

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestUsers_PrivateFile: a user who may add files to the lock's folder puts somebody's private
// file in the place of the sibling. Nobody's use of the lock changes that file's mode, owner
// or contents, nor removes it: not the victim's, who asks for a mode; not root's, who clears
// away a dead lock file that the attacker left with a mode for all.
func TestUsers_PrivateFile(t *testing.T) {
	needsMarks(t) // without them an empty file of one's own passes for a sibling
	const attacker, victim = "12345", "65534"
	acts := map[string]struct {
		owner string // of the private file
		dead  bool   // the attacker leaves a dead lock file
		act   func(t *testing.T, path string)
	}{
		"acquire with a mode": {victim, false, func(t *testing.T, path string) {
			said := userOf(t, victim, "660", path).Say("try")
			contains(t, said, "and 0660 is asked for", "acquire says")
		}},
		"acquire, and note": {victim, false, func(t *testing.T, path string) {
			v := userOf(t, victim, "0", path)
			v.Do("try", "held")
			contains(t, v.Say("note secret"), "something else", "a note in another's file")
			v.Order("tidy")
			v.Do("release", "released")
		}},
		"acquire with a mode, as root": {"0", false, func(t *testing.T, path string) {
			userOf(t, "0", "666", path).Say("try")
		}},
		"another's, as root": {victim, false, func(t *testing.T, path string) {
			userOf(t, "0", "666", path).Say("try")
		}},
		"root tidies":   {"0", true, func(t *testing.T, path string) { userOf(t, "0", "0", path).Say("tidy folder") }},
		"root breaks":   {"0", true, func(t *testing.T, path string) { _, _ = lock.File{Path: path}.Break(t.Context()) }},
		"root tidies b": {victim, true, func(t *testing.T, path string) { userOf(t, "0", "0", path).Say("tidy folder") }},
		"root breaks b": {victim, true, func(t *testing.T, path string) { _, _ = lock.File{Path: path}.Break(t.Context()) }},
	}
	for name, test := range acts {
		for how, put := range map[string]func(string, string) error{"renamed": os.Rename, "linked": os.Link} {
			for what, content := range map[string]string{
				"a text": "the secret\n", "nothing": "", "a number": "7\n", "NULs first": strings.Repeat("\x00", 100) + "data\n", "NULs": strings.Repeat("\x00", 100),
				"a number like a fence": "\x00\x0000001700000000000000\ndata\n",
			} {
				// Nothing tells an empty file without another name from a sibling that flock(1)
				// has made. What is written into it, and that it goes then, is no more than the
				// attacker could do, who can rename it: they could remove it.
				emptyAlone := how == "renamed" && what == "nothing"
				if emptyAlone && name == "acquire, and note" {
					continue
				}
				t.Run(name+", "+how+", "+what, func(t *testing.T) {
					dir := folderOf(t, 0o777)
					path := filepath.Join(dir, "x.lock")
					if test.dead {
						dead := userOf(t, attacker, "666", path)
						dead.Do("try", "held")
						dead.Kill()
						check(t, os.Remove(path+".flock"))
					}
					private := filepath.Join(dir, "private")
					check(t, os.WriteFile(private, []byte(content), 0o600))
					check(t, os.Chown(private, map[string]int{"0": 0, victim: 65534}[test.owner], -1))
					before := must(os.Stat(private))(t)
					check(t, put(private, path+".flock"))
					test.act(t, path)
					after, err := os.Stat(path + ".flock")
					if emptyAlone && errors.Is(err, fs.ErrNotExist) {
						return
					}
					check(t, err)
					was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
					if is.Mode != was.Mode || is.Uid != was.Uid || is.Gid != was.Gid || !os.SameFile(before, after) {
						t.Errorf("the private file was %o of %d, and is %o of %d", was.Mode, was.Uid, is.Mode, is.Uid)
					}
					if got := string(getFile(t, path+".flock")); got != content && !emptyAlone {
						t.Errorf("the private file holds %.99q", got)
					}
				})
			}
		}
	}
}

// TestUsers_BreakMakesSibling: for another user's dead lock, whose sibling is gone, Break makes
// one that lets in those who may make files in the folder, whatever mode the lock file has.
func TestUsers_BreakMakesSibling(t *testing.T) {
	for folder, want := range map[fs.FileMode]fs.FileMode{0o755: 0o600, 0o770: 0o660, 0o777: 0o666} {
		dir := folderOf(t, folder)
		path := filepath.Join(dir, "x.lock")
		leaveDeadClaim(t, path)
		check(t, errors.Join(os.Remove(path+".flock"), os.Chmod(path, 0o666|fs.ModeSticky), os.Chown(path, 12345, -1)))
		equal(t, must((lock.File{Path: path}).Break(t.Context()))(t).State, evidence.Dead)
		info := must(os.Stat(path + ".flock"))(t)
		if info.Mode().Perm() != want {
			t.Errorf("in a folder of mode %o the sibling has %v; want %o", folder, info.Mode(), want)
		}
	}
}

// TestPerm_Mode: a sibling that is there with fewer rights than are asked for is made anew if a
// crash has left it so, empty and marked; else the error says what is wrong, and nothing is left
// behind. No file that is there is made readable for others: it may be another lock's sibling,
// with a note for nobody else, which somebody has renamed.
func TestPerm_Mode(t *testing.T) {
	needsMarks(t)
	marked := func(path string, content string) error {
		return errors.Join(makeMarked(path), os.WriteFile(path, []byte(content), 0o600))
	}
	for name, test := range map[string]struct {
		make func(path string) error
		want fs.FileMode
	}{
		"marked, empty":             {makeMarked, 0o660},
		"marked, with a fence":      {func(path string) error { return marked(path, "\x00\x0000001700000000000000\n") }, 0o600},
		"marked, with other things": {func(path string) error { return marked(path, "a text of somebody's") }, 0o600},
		"marked, with another name": {func(path string) error { return errors.Join(makeMarked(path), os.Link(path, path+".2")) }, 0o600},
		"not marked":                {func(path string) error { return os.WriteFile(path, nil, 0o600) }, 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), Perm: 0o660}
			check(t, test.make(f.Path+".flock"))
			held, err := f.TryAcquire(t.Context())
			equal(t, err == nil, test.want == 0o660, "acquire:", err)
			if err == nil {
				letGo(t, held)
			} else if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "mode is 0600, and 0660 is asked for") {
				t.Errorf("the error is %v", err)
			}
			isAbsent(t, f.Path)
			info := must(os.Stat(f.Path + ".flock"))(t)
			if info.Mode().Perm() != test.want {
				t.Errorf("the sibling has %v", info.Mode())
			}
		})
	}
}

// TestPerm_FolderTaken: a folder that somebody has put in the place of the one that is being
// made keeps its mode.
func TestPerm_FolderTaken(t *testing.T) {
	for name, fill := range map[string]func(folder string) error{
		"with a file": func(folder string) error { return os.WriteFile(filepath.Join(folder, "private"), nil, 0o600) },
		"empty, and older": func(folder string) error {
			old := time.Now().Add(-time.Minute)
			return os.Chtimes(folder, old, old)
		},
	} {
		at := filepath.Join(t.TempDir(), "agent")
		check(t, errors.Join(os.Mkdir(at, 0o700), fill(at)))
		that(t, lock.WidenFolder(at, 0o777, time.Now()) != nil, "%s: another folder was taken for the one just made", name)
		info := must(os.Stat(at))(t)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s: the folder has %v", name, info.Mode())
		}
	}
}

// TestRelease_Appended: a lock file to which another program has appended is still its
// holder's, who releases it.
func TestRelease_Appended(t *testing.T) {
	for _, n := range []int{2, 100_000} {
		f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: -1}
		held := tryHold(t, f)
		appendTo(t, f.Path, strings.Repeat("x", n))
		if s, err := f.Inspect(t.Context()); err != nil || s.State != evidence.Held || s.Info == nil || s.Info.PID != os.Getpid() {
			t.Errorf("while it is held: %+v, %v", s, err)
		}
		letGo(t, held)
		isAbsent(t, f.Path)
	}
}

// TestRelease_Cut: of a claim that was cut, which nobody can have meant as a claim of theirs, a
// release leaves no more than a death would: the next one has the lock at once.
func TestRelease_Cut(t *testing.T) {
	needsMarks(t)
	for _, size := range []int64{0, 40} {
		f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: -1}
		held := tryHold(t, f)
		check(t, os.Truncate(f.Path, size))
		wantErr(t, held.Release(), lock.ErrLost, "release")
		letGo(t, tryHold(t, f))
	}
}

// TestEnd_InAnothersFile: a file that was empty when it was taken for a sibling, and has been
// written to by its owner since, is not written over at release.
func TestEnd_InAnothersFile(t *testing.T) {
	needsMarks(t)
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	log := strings.Repeat("a line of a log\n", 300)
	check(t, os.WriteFile(f.Path+".flock", nil, 0o600))
	held := tryHold(t, f)
	check(t, os.WriteFile(f.Path+".flock", []byte(log), 0o600))
	letGo(t, held)
	equal(t, string(getFile(t, f.Path+".flock")), log, "the log")
}

// TestAppended_Dead: so is one whose holder has died; it is still the holder that its claim
// names.
func TestAppended_Dead(t *testing.T) {
	needsMarks(t)
	for _, n := range []int{2, 100_000} {
		f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: -1}
		dead := start(t, "member", f.Path)
		dead.Do("try", "held")
		appendTo(t, f.Path, strings.Repeat("x", n))
		dead.Kill()
		eventually(t, "the holder is dead", func() bool {
			s, err := f.Inspect(t.Context())
			return err == nil && s.State == evidence.Dead && s.Info != nil && s.Info.PID == dead.Cmd.Process.Pid
		})
		letGo(t, tryHold(t, f))
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	check(t, err)
	_, err = f.WriteString(text)
	check(t, errors.Join(err, f.Close()))
	later := time.Now().Add(time.Second) // whatever the clock's steps
	check(t, os.Chtimes(path, later, later))
}

// TestPerm_ModeWithoutMark: where siblings bear no mark, an empty one that a crash has left without
// its mode is made anew, too.
func TestPerm_ModeWithoutMark(t *testing.T) {
	for content, want := range map[string]fs.FileMode{"": 0o660, "a text of somebody's": 0o600} {
		f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), Perm: 0o660}.WithoutKernelLock()
		check(t, os.WriteFile(f.Path+".flock", []byte(content), 0o600))
		held := tryHold(t, f)
		if _, err := held.Fence(); (err == nil) != (want == 0o660) {
			t.Errorf("with %q in it: %v", content, err)
		}
		letGo(t, held)
		info := must(os.Stat(f.Path + ".flock"))(t)
		if info.Mode().Perm() != want {
			t.Errorf("with %q in it the sibling has %v", content, info.Mode())
		}
	}
}
