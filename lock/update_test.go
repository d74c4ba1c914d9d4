package lock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// into returns a change to these contents.
func into(contents string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return []byte(contents), nil }
}

func update(t *testing.T, path string, change func([]byte) ([]byte, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	check(t, lock.Update(ctx, path, change))
}

// hasContents also checks that nothing but the lock's sibling lies beside a file
// that is alone in its folder.
func hasContents(t *testing.T, path, want string) {
	t.Helper()
	if got := getFile(t, path); string(got) != want {
		t.Errorf("contents are %.200q, want %.200q", got, want)
	}
	name := filepath.Base(path)
	for _, got := range strings.Fields(names(t, filepath.Dir(path))) {
		that(t, got == name || got == name+".lock.flock", "left behind: %s", got)
	}
	isFree(t, path+".lock")
}

func TestUpdate_CreatesAndChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	update(t, path, func(old []byte) ([]byte, error) {
		that(t, old == nil, "old is %q, want nil for a file that does not exist", old)
		return []byte{}, nil
	})
	hasContents(t, path, "")
	update(t, path, func(old []byte) ([]byte, error) {
		that(t, old != nil && len(old) == 0, "old is %#v, want empty but not nil", old)
		return []byte("long contents"), nil
	})
	update(t, path, func(old []byte) ([]byte, error) {
		equal(t, string(old), "long contents", "old")
		return append(old[:4], '!'), nil
	})
	hasContents(t, path, "long!")
	update(t, path, func(old []byte) ([]byte, error) {
		old[0] = 'L' // in place
		return old, nil
	})
	hasContents(t, path, "Long!")
	big := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	update(t, path, into(big))
	update(t, path, func(old []byte) ([]byte, error) {
		if string(old) != big {
			t.Errorf("old has %d bytes, or others", len(old))
		}
		return []byte("small"), nil
	})
	hasContents(t, path, "small")
}

// TestUpdate_UnderLock: the change runs under path+".lock", whatever the file is
// called by, and the claim tells what is done.
func TestUpdate_UnderLock(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := filepath.Join(dir, "f")
	for _, name := range []string{path, "f", "./f", dir + "/../" + filepath.Base(dir) + "/f"} {
		update(t, name, func([]byte) ([]byte, error) {
			if l := wantLocked(t, path+".lock"); l.Info == nil || l.Info.PID != os.Getpid() || l.Info.Cmd != "update" {
				t.Errorf("%s: lock is held by %+v", name, l.Info)
			}
			return []byte(name), nil
		})
		hasContents(t, path, name)
	}
}

// TestUpdate_KeepsMode needs the rights of the file's owner only, but for the
// special bits, see TestUpdate_KeepsSpecialBits.
func TestUpdate_KeepsMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a system with file modes")
	}
	for _, mode := range []fs.FileMode{0o600, 0o644, 0o755, 0o666, 0o777, 0o400, 0o640, 0o440, 0o700} {
		path := filepath.Join(t.TempDir(), "f")
		check(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, mode)))
		update(t, path, into("new"))
		hasContents(t, path, "new")
		equal(t, modeOf(t, path), mode, "mode")
	}
}

// TestUpdate_NewMode: a new file has the mode that the umask leaves of 0644.
func TestUpdate_NewMode(t *testing.T) {
	dir := t.TempDir()
	like, path := filepath.Join(dir, "like"), filepath.Join(dir, "f")
	f := must(os.OpenFile(like, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644))(t)
	f.Close()
	update(t, path, into("new"))
	equal(t, modeOf(t, path), modeOf(t, like), "mode")
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info := must(os.Lstat(path))(t)
	return info.Mode()
}

// TestUpdate_ChangeFails: whichever way change fails, the very error or panic
// value comes out, and neither the file nor its folder has changed.
func TestUpdate_ChangeFails(t *testing.T) {
	type private struct{ n int }
	value := &private{1}
	failure := errors.New("no")
	for _, exists := range []bool{true, false} {
		for name, run := range map[string]func(path string){
			"error": func(path string) {
				err := lock.Update(t.Context(), path, func([]byte) ([]byte, error) { return []byte("new"), failure })
				that(t, err == failure, "error is %v, want the very one", err)
			},
			"nothing": func(path string) {
				err := lock.Update(t.Context(), path, func([]byte) ([]byte, error) { return nil, nil })
				if err == nil || !strings.Contains(err.Error(), "ErrUnchanged") || !strings.Contains(err.Error(), path) {
					t.Errorf("error is %v, want one that says what to do", err)
				}
			},
			"unchanged": func(path string) {
				noErr(t, lock.Update(t.Context(), path, func([]byte) ([]byte, error) { return []byte("x"), lock.ErrUnchanged }))
			},
			"panic": func(path string) {
				defer func() {
					equal[any](t, recover(), value, "panic value")
				}()
				_ = lock.Update(t.Context(), path, func([]byte) ([]byte, error) { panic(value) })
			},
			"goexit": func(path string) {
				var done sync.WaitGroup
				done.Go(func() {
					_ = lock.Update(t.Context(), path, func([]byte) ([]byte, error) { runtime.Goexit(); return nil, nil })
					t.Error("it returned")
				})
				done.Wait()
			},
			"cancelled": func(path string) {
				ctx, cancel := context.WithCancelCause(t.Context())
				err := lock.Update(ctx, path, func([]byte) ([]byte, error) { cancel(failure); return []byte("new"), nil })
				that(t, errors.Is(err, failure) && strings.Contains(err.Error(), path), "error is %v", err)
			},
		} {
			t.Run(fmt.Sprintf("%s, exists: %v", name, exists), func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "f")
				if exists {
					check(t, os.WriteFile(path, []byte("old"), 0o640))
				}
				before := treeState(t, dir)
				run(path)
				sameTree(t, before, treeState(t, dir, "f.lock.flock"))
				isFree(t, path+".lock")
			})
		}
	}
}

// TestUpdate_SameContents: what is there already is not written again.
func TestUpdate_SameContents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(path, []byte("same"), 0o600))
	before := must(platform.IdentifyFile(path))(t)
	check(t, lock.Update(t.Context(), path, into("same")))
	equal(t, must(platform.IdentifyFile(path))(t), before, "it is another file")
	// A new file that is empty is one.
	check(t, lock.Update(t.Context(), path+"2", into("")))
	if got, err := os.ReadFile(path + "2"); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

// TestUpdate_ContextDone: nothing is read, called or touched.
func TestUpdate_ContextDone(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := withCancel(t)
	cancel()
	err := lock.Update(ctx, filepath.Join(dir, "f"), func([]byte) ([]byte, error) { t.Error("called"); return nil, nil })
	if !errors.Is(err, context.Canceled) || names(t, dir) != "" {
		t.Errorf("%v; there is %q", err, names(t, dir))
	}
}

// TestUpdate_GivesUp: a holder elsewhere and a deadline.
func TestUpdate_GivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	update(t, path, into("old"))
	other := start(t, "holder", path+".lock")
	other.Do("try", "held")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := lock.Update(ctx, path, func([]byte) ([]byte, error) { t.Error("called"); return nil, nil })
	if l := asLocked(t, err); !errors.Is(err, lock.ErrTimeout) || l.Info == nil || l.Info.PID != other.Cmd.Process.Pid {
		t.Errorf("error is %v", err)
	}
	other.Do("release", "released")
	parkedIs(t, 0)
	hasContents(t, path, "old")
}

// TestUpdate_LockLost: Update's documentation says that a lock that was lost is
// found out before the file is replaced.
func TestUpdate_LockLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	update(t, path, into("old"))
	err := lock.Update(t.Context(), path, func([]byte) ([]byte, error) { return []byte("new"), os.Remove(path + ".lock") })
	wantErr(t, err, lock.ErrLost)
	hasContents(t, path, "old")
}

// TestUpdate_Symlinks: the file that a link leads to is changed, under the lock
// beside that file.
func TestUpdate_Symlinks(t *testing.T) {
	dir := t.TempDir()
	sub, links := filepath.Join(dir, "sub"), filepath.Join(dir, "links")
	target := filepath.Join(sub, "target")
	link, chain, folder := filepath.Join(links, "link"), filepath.Join(links, "chain"), filepath.Join(links, "folder")
	if err := errors.Join(os.Mkdir(sub, 0o700), os.Mkdir(links, 0o700), os.WriteFile(target, []byte("old"), 0o600),
		os.Symlink("../sub/target", link), os.Symlink("link", chain), os.Symlink(sub, folder)); err != nil {
		t.Skip("needs symbolic links: ", err)
	}
	before := treeState(t, links)
	for _, name := range []string{link, chain, filepath.Join(folder, "target")} {
		update(t, name, func([]byte) ([]byte, error) {
			wantLocked(t, target+".lock")
			return []byte("by " + name), nil
		})
		hasContents(t, target, "by "+name)
		sameTree(t, before, treeState(t, links))
	}
	if got := modeOf(t, target); got != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("mode is %v, want the target's", got)
	}
	// A new file in a folder by another name.
	update(t, filepath.Join(folder, "new"), func([]byte) ([]byte, error) {
		wantLocked(t, filepath.Join(sub, "new.lock"))
		return []byte("new"), nil
	})
	if got := getFile(t, filepath.Join(sub, "new")); string(got) != "new" {
		t.Errorf("new file has %q", got)
	}
}

// refused checks that Update fails, with the path in the error, calls nothing,
// and changes nothing but for the lock's sibling.
func refused(t *testing.T, path string) error {
	t.Helper()
	dir := filepath.Dir(path)
	before := treeState(t, dir)
	var err error
	promptly(t, "Update", func() {
		err = lock.Update(t.Context(), path, func([]byte) ([]byte, error) { t.Error("change was called"); return nil, nil })
	})
	if err == nil {
		t.Error("no error")
	} else if !strings.Contains(err.Error(), dir) {
		t.Errorf("error does not say where: %v", err)
	}
	sameTree(t, before, treeState(t, dir)) // no sibling either
	return err
}

// A file that comes into being while Update looks what is there is no dangling link.
func TestUpdate_CreatedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	done, stopped := make(chan struct{}), make(chan struct{})
	defer func() { close(done); <-stopped }()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
			}
			err := os.WriteFile(path, []byte("here"), 0o600)
			if err == nil {
				err = os.Remove(path)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	enough := errors.New("enough")
	for range 5000 {
		err := lock.Update(t.Context(), path, func([]byte) ([]byte, error) { return nil, enough })
		if err != enough {
			t.Fatal(err)
		}
	}
}

func TestUpdate_NotAFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(path("folder"), 0o700), os.Symlink("gone", path("dangling")),
		os.Symlink("loop", path("loop")), os.Symlink("folder", path("to-folder")), os.WriteFile(path("file"), nil, 0o600)); err != nil {
		t.Skip("needs symbolic links: ", err)
	}
	for _, name := range []string{"folder", "dangling", "loop"} {
		t.Run(name, func(t *testing.T) { refused(t, filepath.Join(dir, filepath.FromSlash(name))) })
	}
	t.Run("to-folder", func(t *testing.T) {
		if err := lock.Update(t.Context(), path("to-folder"), into("")); err == nil || !strings.Contains(err.Error(), "folder") {
			t.Errorf("error is %v", err)
		}
	})
	for name, want := range map[string]error{"gone/file": fs.ErrNotExist, "file/below": nil} {
		err := lock.Update(t.Context(), path(name), into(""))
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v; want an error that says where", name, err)
		}
	}
	wantErr(t, lock.Update(t.Context(), "", into("")), lock.ErrInvalidName, "empty path")
}

// TestUpdate_LeftoverTemp: what a dead writer, or somebody with a purpose, has put
// at the temporary name is replaced, and not written through.
func TestUpdate_LeftoverTemp(t *testing.T) {
	victims := t.TempDir()
	victim := filepath.Join(victims, "victim")
	putFile(t, victim, []byte("precious"), time.Time{})
	for name, plant := range map[string]func(temp string) error{
		"file":             func(temp string) error { return os.WriteFile(temp, bytes.Repeat([]byte("x"), 1000), 0o777) },
		"file, no mode":    func(temp string) error { return os.WriteFile(temp, nil, 0) },
		"link to a victim": func(temp string) error { return os.Symlink(victim, temp) },
		"dangling link":    func(temp string) error { return os.Symlink(filepath.Join(victims, "made"), temp) },
		"hard link":        func(temp string) error { return os.Link(victim, temp) },
	} {
		for _, exists := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, exists: %v", name, exists), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "f")
				if exists {
					putFile(t, path, []byte("old"), time.Time{})
				}
				if err := plant(filepath.Join(filepath.Dir(path), ".f.holdfast-tmp")); err != nil {
					t.Skip("needs symbolic links: ", err)
				}
				before := treeState(t, victims)
				update(t, path, into("new"))
				hasContents(t, path, "new")
				if mode := modeOf(t, path); !mode.IsRegular() || mode&0o111 != 0 {
					t.Errorf("file is %v", mode)
				}
				if name != "hard link" { // that changes the victim's number of links, and so its time
					sameTree(t, before, treeState(t, victims))
				}
				hasContents(t, victim, "precious")
			})
		}
	}
	t.Run("folder", func(t *testing.T) { // can't be a writer's
		path := filepath.Join(t.TempDir(), "f")
		putFile(t, path, []byte("old"), time.Time{})
		check(t, os.Mkdir(filepath.Join(filepath.Dir(path), ".f.holdfast-tmp"), 0o700))
		before := treeState(t, filepath.Dir(path))
		if err := lock.Update(t.Context(), path, into("new")); err == nil || !strings.Contains(err.Error(), ".f.holdfast-tmp") {
			t.Errorf("error is %v", err)
		}
		sameTree(t, before, treeState(t, filepath.Dir(path), "f.lock.flock"))
	})
}

// TestUpdate_ConfigEditor is a scenario of the agent service (see FORMATS.md): the second
// saver waits until the first has saved, and merges into what that has saved.
func TestUpdate_ConfigEditor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	update(t, path, into(`{"base":1}`))
	merge := func(key string) func([]byte) ([]byte, error) {
		return func(old []byte) ([]byte, error) {
			config := map[string]int{}
			if err := json.Unmarshal(old, &config); err != nil {
				return nil, err
			}
			config[key] = 1
			return json.Marshal(config)
		}
	}
	second := make(chan error, 1)
	update(t, path, func(old []byte) ([]byte, error) {
		go func() { second <- lock.Update(t.Context(), path, merge("second")) }()
		eventually(t, "the second saver waits", func() bool { return lock.QueueLen(lock.File{Path: path + ".lock"}, false) == 1 })
		select {
		case err := <-second:
			t.Errorf("the second saver did not wait: %v", err)
		default:
		}
		return merge("first")(old)
	})
	check(t, <-second)
	hasContents(t, path, `{"base":1,"first":1,"second":1}`)
}
