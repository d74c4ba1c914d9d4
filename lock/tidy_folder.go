package lock

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/queue"
	"github.com/holdfast-go/holdfast/platform"
)

// Tidying says what Tidy is to do.
type Tidying struct {
	// OlderThan spares what was written less than that long ago. A sibling with a fence is spared
	// if the fence was given less than that long ago. Its next fence goes on from the time of
	// day, and only a clock that is set back by more could rewind that. 0 means a day for fences,
	// and spares nothing else.
	OlderThan time.Duration
	// DryRun has nothing removed.
	DryRun bool
}

// Tidied is a file that Tidy has found, and what became of it.
type Tidied struct {
	Path string `json:"path"`
	// Needless says that nobody needs the file, and Removed that it has been removed.
	Needless bool `json:"needless"`
	Removed  bool `json:"removed"`
	// Why says why it is not needed, or why it stays.
	Why string `json:"why"`
}

// Tidy removes, below a folder, what locks have left there and nobody needs any more: the
// siblings of locks that nobody has, waits for, or has open; lock files of holders proven
// dead, with their siblings, as the next holder would remove them; and what dead processes
// have left beside. A file that does not show that holdfast made it stays, whatever its name:
// see FORMATS.md on the mark. Tidy yields each of these files, and those that stay, with the
// reason. It may be called at any time, beside any number of users of the locks. They see no
// more of it than of a process that was there for an instant.
//
// Nothing goes because of its age alone: see Tidying.OlderThan. Symbolic links to folders are
// not followed. What can't be read comes as an error with its path, and the rest follows. The
// cause of a ctx that is done is the last error.
func Tidy(ctx context.Context, dir string, how Tidying) iter.Seq2[Tidied, error] {
	return func(yield func(Tidied, error) bool) {
		dir, err := filepath.Abs(dir)
		if err != nil {
			yield(Tidied{Path: dir}, fail.At("resolve", dir, err))
			return
		}
		now := time.Now()
		which := tidying{fenceBefore: now.Add(-24 * time.Hour), dry: how.DryRun}
		if how.OlderThan > 0 {
			which.before = now.Add(-how.OlderThan)
			which.fenceBefore = which.before
		}
		list := new(kernelList)
		err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.Is(err, fs.ErrNotExist) && path != dir:
				return nil // gone since
			case err != nil:
				if !yield(Tidied{Path: path}, err) {
					return fs.SkipAll
				}
				return nil
			case !entry.IsDir():
				return nil
			}
			entries, _ := os.ReadDir(path) // an error comes to us with the next call
			found, order := locksOf(path, entries)
			for _, lockPath := range order {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				t := folderTidier{ctx: ctx, which: which, list: list, beside: found[lockPath], yield: yield}
				if t.lock(lockPath); t.stopped {
					return fs.SkipAll
				}
			}
			return nil
		})
		if err != nil {
			yield(Tidied{Path: dir}, err)
		}
	}
}

// locksOf returns the locks to which the files of a folder belong, by their paths, with the
// files beside each lock file, and the paths in their order. folderTidier says whether a lock
// file alone is a lock.
func locksOf(dir string, entries []fs.DirEntry) (found map[string][]string, order []string) {
	found = map[string][]string{}
	for _, e := range entries {
		name, beside := e.Name(), true
		if sibling, is := strings.CutSuffix(name, siblingSuffix); is {
			name = sibling
		} else if i := strings.LastIndex(name, markerSuffix); i >= 0 && isOurs(name) {
			name = name[:i]
		} else if beside = false; !strings.HasSuffix(name, ".lock") {
			continue
		}
		if name == "" || e.IsDir() {
			continue
		}
		path := filepath.Join(dir, name)
		if _, is := found[path]; !is {
			found[path] = nil
		}
		if beside {
			found[path] = append(found[path], filepath.Join(dir, e.Name()))
		}
	}
	return found, slices.Sorted(maps.Keys(found))
}

// A folderTidier tidies up one lock.
type folderTidier struct {
	ctx     context.Context
	which   tidying
	list    *kernelList
	beside  []string // the files beside the lock file
	known   bool     // the sibling shows that this is a lock of holdfast's
	yield   func(Tidied, error) bool
	stopped bool // yield wants no more
}

// say yields what became of a file: why it stays, or else why it is not needed.
func (t *folderTidier) say(path string, stays queue.Kept, needless string, err error) {
	if t.stopped {
		return
	}
	said := Tidied{Path: path, Why: needless, Needless: stays == "", Removed: stays == "" && !t.which.dry}
	switch {
	case err != nil && errors.Is(err, fs.ErrPermission):
		said = Tidied{Path: path, Why: "not permitted: " + err.Error()}
	case err != nil:
		t.stopped = !t.yield(Tidied{Path: path}, err)
		return
	case stays != "":
		said.Why = string(stays)
	}
	t.stopped = !t.yield(said, nil)
}

// lock tidies up what lies at a lock's path, and beside it.
func (t *folderTidier) lock(path string) {
	// Age proves nothing to us, as we do not want the lock.
	f := File{Path: path, StaleAfter: -1}
	a, err := f.attempt(platform.Exclusive, impatient(1))
	if errors.Is(err, ErrInvalidName) {
		return // no lock belongs to "dir/.flock"
	} else if err != nil {
		t.say(path, "", "", err)
		return
	}
	if !a.Shares() {
		for _, name := range t.beside {
			t.say(name, keptUntrusted, "", nil)
		}
		return
	}
	t.known = a.hasSibling()
	if platform.IsThere(a.file.Path) && !t.lockFile(a) {
		return
	}
	for _, name := range t.beside {
		if name != a.sibling.Path {
			t.leftover(a, name)
		}
	}
	if why, err := a.sibling.Tidy(tidier{&a.place, t.which}); !errors.Is(err, fs.ErrNotExist) {
		t.say(a.sibling.Path, why, "nobody has the lock, or waits for it", err)
	}
}

// lockFile deals with a lock that somebody has, or died with. It takes the latter over and
// releases it, as the next holder would. It reports whether the lock file has gone.
func (t *folderTidier) lockFile(a *attempt) (gone bool) {
	s, err := a.inspect(t.ctx, t.list)
	if err != nil {
		t.say(a.file.Path, "", "", err)
		return false
	}
	why := keptAs(s.State, s.Evidence)
	switch ours := t.known || s.Info != nil && s.Info.KernelLock != ""; {
	case !ours && len(t.beside) == 0 && s.Evidence != evidence.Incomplete:
		return false // a file of this name may be anybody's
	// Only a caller that acquires the lock says that this is a lock file.
	case !ours:
		why = keptAlien
	case s.State != evidence.Dead:
	default:
		why, err = t.takeOver(a)
	}
	t.say(a.file.Path, why, "its holder is dead: "+string(s.Evidence), err)
	if err == nil && why == "" {
		return true
	}
	for _, name := range t.beside {
		t.say(name, cmp.Or(why, queue.KeptLockFile), "", nil)
	}
	return false
}

// takeOver removes a dead holder's lock file, and returns why it stays.
func (t *folderTidier) takeOver(a *attempt) (queue.Kept, error) {
	if info, _, err := platform.Look(a.file.Path); err == nil && t.isYoung(info) {
		return keptYoung, nil
	}
	if t.which.dry {
		t.which.dead = true
		return "", nil
	}
	held, err := a.file.orAsThere().TryAcquire(t.ctx)
	if err == nil {
		return "", held.ReleaseUnused() // the dead one stays the predecessor of the next
	}
	var locked *LockedError
	if errors.As(err, &locked) {
		return keptAs(locked.State, locked.Evidence), nil
	}
	return "", err
}

func keptAs(s evidence.State, e evidence.Evidence) queue.Kept {
	return queue.Kept("the lock is " + string(s) + ": " + string(e))
}

func (t *folderTidier) isYoung(info platform.Info) bool {
	return !t.which.before.IsZero() && !info.Modified.Before(t.which.before)
}

// leftover deals with a marker, or what lies beside one, of a lock without lock file.
func (t *folderTidier) leftover(a *attempt, path string) {
	f, err := a.Look(path)
	const left = "a process that died has left it"
	if errors.Is(err, fs.ErrNotExist) { // the lock's reclaimer removed it
		t.say(path, "", left, nil)
		return
	} else if err != nil {
		t.say(path, "", "", err)
		return
	}
	defer f.Close()
	kernel, err := a.peek(f, noList(), true)
	state, why := a.Judge(t.ctx, f, kernel)
	switch {
	case err != nil:
	case !f.Info.Marked() && (f.Claim == nil || !f.Claim.Ours) && !(t.known && lockfile.IsBeside(path[len(a.file.Path):])):
		t.say(path, keptAlien, "", nil)
		return
	case t.isYoung(f.Info):
		t.say(path, keptYoung, "", nil)
		return
	case state != evidence.Dead && !a.IsAbandoned(f):
		t.say(path, queue.Kept("its maker may be at work: "+string(why)), "", nil)
		return
	case t.which.dry:
	case path == a.Marker+".new":
		err = a.take.RemoveLeftover(t.ctx, path)
	default:
		err = a.take.RemoveMarker(t.ctx, path)
	}
	stays := queue.Kept("")
	var locked *LockedError
	if errors.As(err, &locked) || err == errMoved && platform.IsThere(path) {
		stays = queue.KeptInUse
	}
	if err == errMoved || stays != "" {
		err = nil
	}
	t.say(path, stays, left, err)
}
