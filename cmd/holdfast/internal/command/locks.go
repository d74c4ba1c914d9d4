package command

import (
	"context"
	"os"
	"slices"

	"github.com/holdfast-go/holdfast/lock"
)

// locks is where those of a call are: in files, or in a database.
type locks interface {
	// acquire takes all of them, or none.
	acquire(ctx context.Context, names []string, shared, try bool) ([]hold, error)
	inspect(ctx context.Context, name string) (lock.Status, error)
	// refusal is how a lock that could not be acquired was found.
	refusal(ctx context.Context, e *lock.LockedError) lock.Status
	// isOurs reports whether this process, and nobody else, has a lock.
	isOurs(lock.Status) bool
	// engine has the permits of a lock, and its gate.
	engine(name string) (l lock.Locker, gate lock.Key)
	// permits are those of a lock that are held, by their numbers. With an error come those that
	// could be read.
	permits(ctx context.Context, name string) ([]permit, error)
	// await returns when nobody has a lock, or, of its name, a permit. If try is set it returns
	// at once, with a *lock.LockedError if it is held.
	await(ctx context.Context, name string, try bool) error
	words() *words
}

// words are what people are told of a lock, and what depends on where it is.
type words struct {
	flag      string // of a server
	process   string // what a pid is one of
	from      string // what leads to the host
	byList    string // behind processes with nothing but the pid known
	right     string // what would let this user end a session
	nobody    string // nothing is known
	advice    func(lock.Status) []string
	lost      string // what is seen of a loss
	lostWhy   string // while the command runs
	lostLater string // when it has ended
	leftover  string // what a release that failed leaves behind
}

// files are lock files: this one, at other paths.
type files struct{ lock.File }

var fileWords = words{
	process: "pid", from: "on", byList: ", by the kernel's list", advice: advice,
	nobody:    "not known: there is no claim, or none that can be read",
	lost:      "its lock file is no longer ours",
	lostWhy:   "someone removed it, or took us for dead",
	lostLater: "someone removed or replaced it while the command ran",
	leftover:  "its lock file may still be there; as its holder is gone now, the next one takes it over",
}

func (f files) words() *words { return &fileWords }

func (f files) at(path string) lock.File {
	f.Path = path
	return f.File
}

func (f files) acquire(ctx context.Context, names []string, shared, try bool) ([]hold, error) {
	acquire := lock.AcquireAll
	if try || slices.ContainsFunc(names, isObstacle) {
		acquire = lock.TryAcquireAll
	}
	f.Shared = shared
	var all []lock.File
	for _, path := range names {
		all = append(all, f.at(path))
	}
	return acquireWhole(ctx, f, names, try, func() (held []hold, err error) {
		set, err := acquire(ctx, all...)
		if err != nil {
			return nil, err
		}
		for _, h := range set.Held() {
			held = append(held, h.(*lock.FileHold))
		}
		return held, nil
	})
}

// isObstacle reports whether something is at a lock's path that no holder put there: a
// link, a device. Unlike a lock file it won't go away, so there is no point in waiting for
// it.
func isObstacle(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && !info.Mode().IsRegular()
}

func (f files) inspect(ctx context.Context, name string) (lock.Status, error) {
	return f.at(name).Inspect(ctx)
}

func (f files) refusal(_ context.Context, e *lock.LockedError) lock.Status { return e.Status }

// isOurs: a holder with this pid in another container is taken for this process, and only
// not told of.
func (f files) isOurs(s lock.Status) bool {
	if s.Info != nil {
		return s.Info.PID == os.Getpid()
	}
	return len(s.Processes) == 1 && s.Processes[0].PID == os.Getpid()
}
