package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/permits"
)

// permitVar is the number of the command's permit, in its environment.
const permitVar = "HOLDFAST_PERMIT"

// A waiter for a permit waits for all of them, with a descriptor, or a connection, each.
const (
	maxPermits         = 1000
	maxDatabasePermits = 20
)

// permitLocks are the locks of a call that is to have one of so many permits of its lock.
type permitLocks struct {
	locks
	size int
}

func (p permitLocks) acquire(ctx context.Context, names []string, _, try bool) ([]hold, error) {
	engine, gate := p.engine(names[0])
	pool := permits.New(engine, gate, p.size)
	acquire := pool.Acquire
	if try {
		acquire = pool.TryAcquire
	}
	permit, err := acquire(ctx)
	if err != nil {
		return nil, err
	}
	return []hold{permitHold{permit.Hold.(hold), permit.Number()}}, nil
}

// permitHold is a permit that is held.
type permitHold struct {
	hold
	number int
}

// maxGateLabel is what a lock file takes.
const maxGateLabel = 8 << 10

// permitFiles are the permits of a lock file, and that file, their gate, as an engine of locks:
// DIR/slots.lock and DIR/slots.permit-1.lock, as lock.Dir has them, too.
type permitFiles struct {
	file           lock.File // the options of each
	folder, suffix string
	gate           lock.Key
}

func (f files) engine(path string) (lock.Locker, lock.Key) { return f.permitFiles(path) }

func (f files) permitFiles(path string) (permitFiles, lock.Key) {
	folder, name := filepath.Split(path)
	name, isLock := strings.CutSuffix(name, ".lock")
	all := permitFiles{file: f.File, folder: folder, gate: lock.Key{Space: filepath.Clean(folder), Name: name}}
	if isLock {
		all.suffix = ".lock"
	}
	return all, all.gate
}

func (f permitFiles) At(key lock.Key) (lock.File, error) {
	file := f.file
	file.Path = f.folder + key.Name + f.suffix
	if key == f.gate {
		file.Cmd = shorten("wants a permit: "+file.Cmd, maxGateLabel)
	}
	return file, nil
}

func (f permitFiles) Acquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	file, _ := f.At(key)
	if isObstacle(file.Path) {
		return f.TryAcquire(ctx, key)
	}
	return asHold(file.Acquire(ctx))
}

func (f permitFiles) TryAcquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	file, _ := f.At(key)
	return asHold(file.TryAcquire(ctx))
}

func asHold(h *lock.FileHold, err error) (lock.Hold, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (f permitFiles) Inspect(ctx context.Context, key lock.Key) (lock.Status, error) {
	file, _ := f.At(key)
	status, err := file.Inspect(ctx)
	status.Key = key
	return status, err
}

// List yields the permits.
func (f permitFiles) List(ctx context.Context) iter.Seq2[lock.Status, error] {
	return func(yield func(lock.Status, error) bool) {
		all, err := f.permits(ctx)
		for _, p := range all {
			p.Key = permits.Key(f.gate, p.Number)
			if !yield(p.Status, nil) {
				return
			}
		}
		if err != nil {
			yield(lock.Status{}, err)
		}
	}
}

// permit is a permit that is held.
type permit struct {
	Number int `json:"number"`
	lock.Status
}

func (f files) permits(ctx context.Context, path string) ([]permit, error) {
	all, _ := f.permitFiles(path)
	return all.permits(ctx)
}

func (f permitFiles) permits(ctx context.Context) (all []permit, err error) {
	var errs []error
	for _, number := range f.numbers() {
		file, _ := f.At(permits.Key(f.gate, number))
		if !isThere(file.Path) && !isThere(file.Path+".flock") {
			continue
		}
		status, err := file.Inspect(ctx)
		errs = append(errs, err)
		all = append(all, permit{number, status})
	}
	return out(all), errors.Join(errs...)
}

// permitInfix is in the name of each permit's file.
const permitInfix = ".permit-"

// numbers are the numbers of permits that may be held, as far as the names in the folder tell:
// all of them if it can't be listed, or has so many files that to look for each is faster.
func (f permitFiles) numbers() (all []int) {
	folder, err := os.Open(cmp.Or(f.folder, "."))
	var names []string
	if err == nil {
		names, err = folder.Readdirnames(maxPermits)
		_ = folder.Close()
	}
	if err != nil && err != io.EOF || len(names) >= maxPermits {
		for number := 1; number <= maxPermits; number++ {
			all = append(all, number)
		}
		return all
	}
	for _, name := range names {
		// The rest of the name may have another form, where the filesystem ignores case.
		at := strings.LastIndex(name, permitInfix)
		if at < 0 {
			continue
		}
		digits, _, _ := strings.Cut(name[at+len(permitInfix):], ".")
		if number, err := strconv.Atoi(digits); err == nil && number >= 1 && number <= maxPermits {
			all = append(all, number)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// out are those of some permits that are not free.
func out(all []permit) []permit {
	return slices.DeleteFunc(all, func(p permit) bool {
		return p.State == "" || p.State == evidence.Free || p.State == evidence.Dead
	})
}

func (d *database) permits(ctx context.Context, name string) (all []permit, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	seen := false
	for status, err := range d.List(ctx) {
		if err != nil && !seen { // what may not be seen of some sessions comes as an error behind all locks
			return nil, err
		}
		seen = true
		if number := permits.Number(keyOf(name), status.Key); err == nil && number > 0 {
			all = append(all, permit{number, status})
		}
	}
	slices.SortFunc(all, func(a, b permit) int { return a.Number - b.Number })
	return out(all), nil
}

// wrongPermits says what is wrong with the flag --permits.
func (o *runOptions) wrongPermits() error {
	most, why := maxPermits, ""
	if o.engines.inServer() {
		most, why = maxDatabasePermits, " in a database, as who waits has a connection for each"
	}
	switch {
	case o.permits < 1 || o.permits > most:
		return misused("--permits %d is no number of permits: they go from 1 to %d%s", o.permits, most, why)
	case o.shared:
		return misused("--permits and --shared exclude each other: one permit has one holder")
	case o.nested:
		return misused("--permits and --nested exclude each other: a second permit is refused, as two who each wait for one would wait for each other")
	case len(o.locks) > 1:
		return misused("--permits and --also exclude each other: one call has one permit")
	}
	return nil
}

// noPermit says why a permit could not be acquired.
func (a *app) noPermit(o runOptions, at locks, err error, locked *lock.LockedError) int {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	gate := visible(o.locks[0])
	switch {
	case errors.Is(err, lock.ErrReentrant):
		a.say(fmt.Sprintf("%s is held by a process that has started this one; a permit of %s is refused here, as two who each wait for one would wait for each other; %s", visible(locked.Path), gate, o.undone))
		return o.conflict
	case errors.Is(err, lock.ErrTimeout):
		a.say(fmt.Sprintf("no permit of %s came free in %s; %s", gate, o.timeout, o.undone))
	default:
		a.say(fmt.Sprintf("no permit of %s is free; %s", gate, o.undone))
	}
	all, err := at.permits(ctx, o.locks[0])
	at.words().describePermits(a.stderr, all)
	if err != nil {
		a.more(oneLine(err))
	}
	if status, err := at.inspect(ctx, o.locks[0]); err == nil && status.State != evidence.Free && status.State != evidence.Dead {
		_, who := at.words().holder(status)
		a.more("before us " + who)
	}
	return o.conflict
}

// describePermits names the holder of each.
func (words *words) describePermits(w io.Writer, all []permit) {
	for _, p := range all {
		_, who := words.holder(p.Status)
		if p.Info != nil {
			who += ", since " + moment(p.Info.CreatedAt)
		}
		line(w, "permit "+strconv.Itoa(p.Number), who)
	}
}
