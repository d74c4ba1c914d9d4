package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// some gives locks in a folder, by name.
func some(dir string, names ...string) (files []lock.File) {
	for _, name := range names {
		files = append(files, lock.File{Path: filepath.Join(dir, name), Cmd: name})
	}
	return files
}

func holdAll(t *testing.T, files ...lock.File) *lock.Set {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return must(lock.AcquireAll(ctx, files...))(t)
}

// isFree checks that nobody has a lock, by its two files.
func isFree(t *testing.T, path string) {
	t.Helper()
	isAbsent(t, path)
	if err := peek(path + ".flock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("kernel lock of %s: %v; want it free", path, err)
	}
}

// setTaker is a process that takes a set of locks again and again, in the order
// that it is told ("a b c"), and says "done", or what went wrong.
func setTaker(dir string, orders *bufio.Scanner) {
	for orders.Scan() {
		if err := takeSets(dir, strings.Fields(orders.Text()), 100); err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println("done")
	}
}

// takeSets puts up a mark for each lock that it has, which only one can put up.
func takeSets(dir string, names []string, rounds int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for round := range rounds {
		set, err := lock.AcquireAll(ctx, some(dir, names...)...)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for _, name := range names {
			mark := filepath.Join(dir, name+".occupied")
			f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("not alone: %w", err)
			}
			if err := errors.Join(f.Close(), os.Remove(mark)); err != nil { // Windows removes no open file
				return fmt.Errorf("not alone: %w", err)
			}
		}
		if err := set.Release(); err != nil {
			return err
		}
	}
	return nil
}

// TestSet_OppositeOrders: goroutines and processes that name the same locks in
// opposite orders never wait for each other.
func TestSet_OppositeOrders(t *testing.T) {
	const forward, backward = "a b c", "c b a"
	t.Run("goroutines", func(t *testing.T) {
		dir := t.TempDir()
		var all sync.WaitGroup
		for _, order := range []string{forward, backward, forward, backward} {
			all.Go(func() {
				noErr(t, takeSets(dir, strings.Fields(order), 100))
			})
		}
		all.Wait()
	})
	t.Run("processes", func(t *testing.T) {
		dir := t.TempDir()
		var takers []*child
		for _, order := range []string{forward, backward, forward, backward} {
			c := start(t, "set-taker", dir)
			c.Order(order)
			takers = append(takers, c)
		}
		for _, c := range takers {
			c.Expect("done")
		}
		for _, f := range some(dir, "a", "b", "c") {
			isFree(t, f.Path)
		}
	})
	t.Run("folders by other names", func(t *testing.T) {
		dir := t.TempDir()
		one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
		if err := errors.Join(os.Mkdir(one, 0o700), os.Mkdir(two, 0o700),
			os.Symlink(one, filepath.Join(dir, "z")), os.Symlink(two, filepath.Join(dir, "y"))); err != nil {
			t.Skip("needs symbolic links: ", err)
		}
		var all sync.WaitGroup
		for _, names := range [][]string{{"one/l", "two/l"}, {"z/l", "y/l"}} {
			all.Go(func() {
				for range 100 {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					set, err := lock.AcquireAll(ctx, some(dir, names...)...)
					cancel()
					if err != nil {
						t.Error(err)
						return
					}
					noErr(t, set.Release())
				}
			})
		}
		all.Wait()
	})
}

// TestSet_AllOrNone: the last lock of three is held elsewhere. While the set
// waits for it, it has the others; once it has given up, they are free.
func TestSet_AllOrNone(t *testing.T) {
	for name, limited := range map[string]bool{"deadline": true, "cancel": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := some(dir, "c", "a", "b")
			other := start(t, "holder", files[0].Path)
			other.Do("try", "held")
			ctx, cancel := context.WithCancel(t.Context())
			want := context.Canceled
			if limited {
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
				want = context.DeadlineExceeded
			}
			defer cancel()
			came := make(chan error, 1)
			go func() {
				set, err := lock.AcquireAll(ctx, files...)
				if err == nil {
					err = errors.Join(errors.New("it has all"), set.Release())
				} else if set != nil {
					err = errors.Join(errors.New("there is a set with the error"), err)
				}
				came <- err
			}()
			if !limited {
				eventually(t, "the set waits for c", func() bool { return lock.QueueLen(files[0], false) == 1 })
				for _, f := range files[1:] {
					if l := wantLocked(t, f.Path); l.Info == nil || l.Info.PID != os.Getpid() {
						t.Errorf("%s is held by %+v", f.Path, l.Info)
					}
				}
				cancel()
			}
			err := <-came
			locked := asLocked(t, err)
			if locked.Path != files[0].Path || locked.Info == nil || locked.Info.PID != other.Cmd.Process.Pid {
				t.Errorf("in the way is %+v at %s; want the other process, at c", locked.Info, locked.Path)
			}
			that(t, errors.Is(err, want) && errors.Is(err, lock.ErrTimeout) == limited, "error is %v", err)
			isFree(t, files[1].Path)
			isFree(t, files[2].Path)
			other.Do("release", "released")
			parkedIs(t, 0)
			noErr(t, holdAll(t, files...).Release())
		})
	}
}

// TestSet_Order: acquired in one order whatever the caller's, released in the
// reverse.
func TestSet_Order(t *testing.T) {
	dir := t.TempDir()
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}} {
		var seen recorder
		files := some(dir, names...)
		for i := range files {
			files[i].Observe = seen.Observe
		}
		set := holdAll(t, files...)
		var paths []string
		for _, h := range set.Held() {
			paths = append(paths, filepath.Base(h.(*lock.FileHold).Path())+" "+h.Info().Cmd)
		}
		if want := []string{"a a", "b b", "c c"}; !slices.Equal(paths, want) {
			t.Errorf("%v: Held is %v, want %v", names, paths, want)
		}
		clear(set.Held()) // a copy
		check(t, set.Release())
		want := "acquired a, acquired b, acquired c, released c, released b, released a"
		equal(t, seen.String(), want, names)
		if err := set.Release(); err != nil || seen.String() != want {
			t.Errorf("second Release: %v, %s", err, seen.String())
		}
	}
}

// TestSet_Twice: a lock that is named twice, by whatever names, is refused
// before anything is touched.
func TestSet_Twice(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	link := filepath.Join(links, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip("needs symbolic links: ", err)
	}
	t.Chdir(dir)
	for _, paths := range [][]string{
		{dir + "/a", dir + "/a"},
		{dir + "/a", dir + "/./a"},
		{dir + "/a", dir + "/b", dir + "/a"},
		{dir + "/a", "a"},
		{dir + "/a", link + "/a"},
		{link + "/a", dir + "/0", dir + "/z", dir + "/a"},
	} {
		var files []lock.File
		for _, p := range paths {
			files = append(files, lock.File{Path: p})
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		set, err := lock.AcquireAll(ctx, files...)
		cancel()
		that(t, errors.Is(err, lock.ErrInvalidName) && set == nil, "%v: %v, %v; want ErrInvalidName", paths, set, err)
		equal(t, names(t, dir), "", paths, "took or left")
	}
	// The same name in two folders is two locks.
	noErr(t, holdAll(t, lock.File{Path: dir + "/a"}, lock.File{Path: links + "/a"}).Release())
}

// TestSet_Invalid: what can't be a lock is found before anything is taken.
func TestSet_Invalid(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]error{
		"":                                 lock.ErrInvalidName,
		dir + "/":                          lock.ErrInvalidName,
		filepath.Join(dir, "gone", "lock"): fs.ErrNotExist,
	} {
		set, err := lock.AcquireAll(t.Context(), lock.File{Path: filepath.Join(dir, "a")}, lock.File{Path: path})
		that(t, errors.Is(err, want) && set == nil, "%q: %v, want %v", path, err, want)
		if got := names(t, dir); got != "" {
			t.Errorf("%q: took or left %s", path, got)
		}
	}
}

func TestSet_Empty(t *testing.T) {
	set := holdAll(t)
	if held := set.Held(); len(held) != 0 {
		t.Errorf("it holds %v", held)
	}
	if ctx := t.Context(); set.Context(ctx) != ctx {
		t.Error("its context is not the parent")
	}
	noErr(t, set.Release())
}

// TestSet_Context: the context of a set carries each of its holds, until they are
// released.
func TestSet_Context(t *testing.T) {
	dir := t.TempDir()
	files := some(dir, "b", "c", "d")
	set := holdAll(t, files...)
	limited, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctx := set.Context(limited)
	for _, f := range files {
		for name, acquire := range map[string]func(context.Context) (*lock.FileHold, error){
			"Acquire": f.Acquire, "TryAcquire": f.TryAcquire, "AcquireShared": sharing(f).Acquire,
		} {
			held, err := acquire(ctx)
			that(t, errors.Is(err, lock.ErrReentrant) && held == nil, "%s of %s: %v, want ErrReentrant", name, f.Path, err)
		}
	}
	// A further set that names one of them gives back what it had got before.
	wantErr(t, errOf(lock.AcquireAll(ctx, some(dir, "a", "e", "d")...)), lock.ErrReentrant, "AcquireAll")
	isFree(t, filepath.Join(dir, "a"))
	isFree(t, filepath.Join(dir, "e"))
	for _, f := range files {
		wantLocked(t, f.Path)
	}
	check(t, set.Release())
	noErr(t, ctx.Err(), "after Release the context is done")
	again, err := lock.AcquireAll(ctx, files...)
	check(t, err, "after Release")
	noErr(t, again.Release())
}

// TestSet_ReleaseGoesOn: locks that were lost do not keep the others from being
// released, and each is reported.
func TestSet_ReleaseGoesOn(t *testing.T) {
	dir := t.TempDir()
	files := some(dir, "a", "b", "c", "d")
	set := holdAll(t, files...)
	ctx := set.Context(t.Context())
	for _, i := range []int{1, 3} {
		check(t, os.Remove(files[i].Path))
	}
	err := set.Release()
	wantErr(t, err, lock.ErrLost, "Release")
	for i, f := range files {
		if named := strings.Contains(fmt.Sprint(err), f.Path); named != (i%2 == 1) {
			t.Errorf("%s in the error: %v (%v)", f.Path, named, err)
		}
		isFree(t, f.Path)
	}
	wantErr(t, context.Cause(ctx), lock.ErrLost, "the context's cause")
	noErr(t, holdAll(t, files...).Release())
}
