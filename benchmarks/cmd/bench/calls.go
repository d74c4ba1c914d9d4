//go:build linux

package main

import (
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A bareCall is one system call of those that an acquisition and a release of ours make.
type bareCall struct {
	name string
	do   func() error
}

// bareCalls returns the calls in their order: until we have the sibling, until we have the
// lock, and until it is given up. wakes is the one in release that lets the next one in.
func bareCalls(path string) (enter, claim, release []bareCall, wakes string) {
	const flags = unix.O_RDWR | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC
	const look = unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_FORCE_SYNC
	var (
		sibling, own int
		x            unix.Statx_t
		data         = make([]byte, 512)
	)
	statx := func(dir int, path string, flags int) error {
		return unix.Statx(dir, path, flags|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &x)
	}
	create := func(path string, fd *int) func() error {
		return func() (err error) {
			*fd, err = unix.Open(path, flags|unix.O_CREAT|unix.O_EXCL, 0o600|unix.S_ISVTX)
			return err
		}
	}
	takeOver := bareTakeOver(path, &sibling, statx, create)
	enter = []bareCall{
		{"statx: of which mount is the folder", func() error {
			return unix.Statx(unix.AT_FDCWD, filepath.Dir(path), unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID_UNIQUE, &x)
		}},
		{"open the sibling", func() (err error) {
			sibling, err = unix.Open(path+".flock", flags|unix.O_CREAT, 0o600)
			return err
		}},
		{"lock the sibling", func() error { return again(func() error { return unix.Flock(sibling, unix.LOCK_EX) }) }},
	}
	claim = []bareCall{
		{"statx: is it still there", func() error { return statx(sibling, "", unix.AT_EMPTY_PATH) }},
		{"create the lock file", func() error {
			err := create(path, &own)()
			if err == unix.EEXIST { // a dead holder's
				err = inOrder(append(takeOver, bareCall{do: create(path, &own)}))
			}
			return err
		}},
		{"lock the lock file", func() error { return again(func() error { return unix.Flock(own, unix.LOCK_EX|unix.LOCK_NB) }) }},
		{"statx: which file it is", func() error { return statx(own, "", unix.AT_EMPTY_PATH) }},
		{"statx: is it at the path", func() error { return statx(unix.AT_FDCWD, path, look) }},
		{"geteuid: whose", func() error { unix.Geteuid(); return nil }},
		{"write the claim", func() error { _, err := unix.Pwrite(own, data[:345], 0); return err }},
		{"statx: a marker left over", func() error { _ = statx(unix.AT_FDCWD, path+".reclaim", look); return nil }},
	}
	release = []bareCall{
		{"statx: is it ours", func() error { return statx(unix.AT_FDCWD, path, look) }},
		{"unlink the lock file", func() error { return unix.Unlink(path) }},
		{"unlock the lock file", func() error { return unix.Flock(own, unix.LOCK_UN) }},
		{"unlock the sibling", func() error { return unix.Flock(sibling, unix.LOCK_UN) }},
		{"close the sibling", func() error { return unix.Close(sibling) }},
		{"close the lock file", func() error { return unix.Close(own) }},
	}
	return enter, claim, release, "unlock the sibling"
}

// bareTakeOver returns the calls by which a dead holder's file goes: it is locked, looked at and
// read; a marker says who removes it; the sibling is told how it ended; it is read again, and
// removed, and then the marker.
func bareTakeOver(path string, sibling *int, statx func(dir int, path string, flags int) error, create func(path string, fd *int) func() error) []bareCall {
	var dead, marker int
	data, markerPath := make([]byte, 2048), path+".reclaim"
	isAt := func(path string) func() error {
		return func() error { return statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW) }
	}
	is := func(fd *int) func() error { return func() error { return statx(*fd, "", unix.AT_EMPTY_PATH) } }
	lock := func(fd *int) func() error { return func() error { return unix.Flock(*fd, unix.LOCK_EX|unix.LOCK_NB) } }
	read := func(fd *int, size int, at int64) func() error {
		return func() error { _, err := unix.Pread(*fd, data[:size], at); return err }
	}
	write := func(fd *int, size int, at int64) func() error {
		return func() error { _, err := unix.Pwrite(*fd, data[:size], at); return err }
	}
	drop := func(fd *int) func() error {
		return func() error { return errors.Join(unix.Flock(*fd, unix.LOCK_UN), unix.Close(*fd)) }
	}
	var calls []bareCall
	for _, do := range []func() error{
		isAt(path),
		func() (err error) {
			dead, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			return err
		},
		is(&dead), lock(&dead), isAt(path), is(&dead), read(&dead, 1024, 0), read(&dead, 668, 356),
		func() error {
			if fd, err := unix.PidfdOpen(math.MaxInt32, 0); err == nil { // nobody has it
				unix.Close(fd)
			}
			return nil
		},
		create(markerPath, &marker), lock(&marker), is(&marker), isAt(markerPath), write(&marker, 355, 0),
		is(sibling), read(sibling, 21, 2), read(sibling, 2048, 2048), write(sibling, 419, 2048),
		read(&dead, 1024, 0), read(&dead, 668, 356), is(&dead), isAt(path), func() error { return unix.Unlink(path) },
		isAt(markerPath), func() error { return unix.Unlink(markerPath) }, is(&marker),
		drop(&marker), drop(&dead),
	} {
		calls = append(calls, bareCall{do: do})
	}
	return calls
}

// bareProtocol makes these calls, and nothing else: what they cost, whoever makes them. It
// is no lock that one could use: it takes any file that it finds for a dead holder's.
func bareProtocol(path string) (func() error, error) {
	c, _ := cycles.Get().(*cycle)
	if c == nil || c.path != path {
		c = newCycle(path)
	}
	return c.release, inOrder(c.enter)
}

// A cycle is what is made anew for each acquisition at a time, and not for each in turn: that
// is none of what the calls cost.
type cycle struct {
	path    string
	enter   []bareCall
	release func() error
}

var cycles sync.Pool

func newCycle(path string) *cycle {
	enter, claim, release, _ := bareCalls(path)
	c := &cycle{path: path, enter: append(enter, claim...)}
	c.release = func() error {
		defer cycles.Put(c)
		return inOrder(release)
	}
	return c
}

func inOrder(calls []bareCall) error {
	for _, c := range calls {
		if err := c.do(); err != nil {
			return err
		}
	}
	return nil
}

// profile measures each of these calls by itself, in an acquisition and release that nobody
// disturbs, and in a hand-off.
func (b *bench) profile() {
	folders := b.folders()
	for _, kind := range []string{"xfs", "btrfs"} {
		dir, remove, err := makeDisk(kind)
		if err != nil {
			b.r.Skipped = append(b.r.Skipped, "the calls on "+kind+": "+err.Error())
			continue
		}
		defer remove()
		folders = append(folders, folder{kind, dir})
	}
	for _, dir := range folders {
		if err := b.profileCalls(dir); err != nil {
			b.r.Skipped = append(b.r.Skipped, "the calls on "+dir.name+": "+err.Error())
		}
	}
	for _, dir := range b.folders() {
		if err := b.profileHandoff(dir); err != nil {
			b.r.Skipped = append(b.r.Skipped, "the calls of a hand-off on "+dir.name+": "+err.Error())
		}
	}
}

func (b *bench) profileCalls(dir folder) error {
	path := b.fresh(dir.path)
	enter, claim, release, _ := bareCalls(path)
	all := slices.Concat(enter, claim, release)
	times := make([][]float64, len(all))
	var clocks, bareTimes []float64
	for range pick(b, 4000, 100) {
		for i, c := range all {
			begin := clock()
			if err := c.do(); err != nil {
				return err
			}
			times[i] = append(times[i], float64(clock()-begin))
		}
		begin := clock()
		clocks = append(clocks, float64(clock()-begin))
		begin = clock()
		unlock, err := bareFlock(path + ".bare")
		if err == nil {
			err = unlock()
		}
		if err != nil {
			return err
		}
		bareTimes = append(bareTimes, float64(clock()-begin))
	}
	reading := quantile(clocks, 0.5)
	b.r.Calls = append(b.r.Calls, Call{Where: dir.name, Name: floorName, Median: quantile(bareTimes, 0.5) - reading})
	for i, c := range all {
		b.r.Calls = append(b.r.Calls, Call{Where: dir.name, Name: c.name, Median: quantile(times[i], 0.5) - reading})
	}
	return nil
}

// profileHandoff has one thread release what another waits for, and takes the time after each
// call of both, from the beginning of the release.
func (b *bench) profileHandoff(dir folder) error {
	path := b.fresh(dir.path)
	var names []string
	times := map[string][]float64{}
	for range pick(b, 300, 5) {
		enter, claim, release, wakes := bareCalls(path)
		if err := inOrder(append(enter, claim...)); err != nil {
			return err
		}
		parking, came := make(chan struct{}), make(chan []int64, 1)
		failed := make(chan error, 1)
		next, nextClaim, nextRelease, _ := bareCalls(path)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			stamps := make([]int64, 0, len(nextClaim)+1)
			err := inOrder(next[:len(next)-1])
			close(parking)
			if err == nil {
				err = next[len(next)-1].do()
			}
			for _, c := range nextClaim {
				stamps = append(stamps, clock())
				if err == nil {
					err = c.do()
				}
			}
			came <- append(stamps, clock())
			failed <- err
		}()
		<-parking
		time.Sleep(3 * time.Millisecond) // as park does
		begin, woke := clock(), int64(0)
		var steps []int64
		for _, c := range release {
			if err := c.do(); err != nil {
				return err
			}
			steps = append(steps, clock())
			if c.name == wakes {
				woke = steps[len(steps)-1]
			}
		}
		stamps := <-came
		if err := <-failed; err != nil {
			return err
		}
		if err := inOrder(nextRelease); err != nil {
			return err
		}
		names = names[:0]
		add := func(name string, ns int64) {
			names = append(names, name)
			times[name] = append(times[name], float64(ns))
		}
		last := begin
		for i, c := range release {
			if steps[i] > woke {
				break // the next one does not wait for it
			}
			add("holder: "+c.name, steps[i]-last)
			last = steps[i]
		}
		add("until the next one runs", stamps[0]-woke)
		for i, c := range nextClaim {
			add("next: "+c.name, stamps[i+1]-stamps[i])
		}
	}
	for _, name := range names {
		b.r.HandoffCalls = append(b.r.HandoffCalls, Call{Where: dir.name, Name: name, Median: quantile(times[name], 0.5)})
	}
	return nil
}
