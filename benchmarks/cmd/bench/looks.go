//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	nightly "github.com/nightlyone/lockfile"
	"golang.org/x/sys/unix"
)

const (
	readFloor    = "floor: read the files"
	bothFloor    = "floor: read them, and the siblings"
	refusedFloor = "floor: a refused flock, and reading the file"
)

// looks measures who can say who holds a lock: of one lock, and of all in a
// folder, all of them held.
func (b *bench) looks() {
	most := 10_000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		most = min(most, int(min(limit.Cur, 1<<20)-1000)/2) // each takes two descriptors
	}
	for _, n := range pick(b, []int{10, 1000, most}, []int{10, 100}) {
		b.look(n)
	}
}

func (b *bench) look(n int) {
	dir := filepath.Dir(b.fresh(b.fast()))
	release, err := populate(dir, n)
	defer release()
	if err != nil {
		b.r.Skipped = append(b.r.Skipped, "looks: "+err.Error())
		return
	}
	one := filepath.Join(dir, strconv.Itoa(n/2)+".lock")
	pids, err := nightly.New(filepath.Join(filepath.Dir(b.fresh(b.fast())), "pid"))
	if err == nil {
		err = pids.TryLock()
	}
	rounds, budget := pick(b, 100, 2), pick(b, 4*time.Second, time.Second)
	b.r.Looks = append(b.r.Looks, takeTurns(fmt.Sprintf("inspect one of %d", n), rounds, budget, readFloor, []contestant{
		{readFloor, timed(func() error { _, err := os.ReadFile(one); return err })},
		{oursName, timed(func() error { _, err := lock.File{Path: one}.Inspect(context.Background()); return err })},
		{"nightlyone/lockfile", timed(func() error {
			if err != nil {
				return err
			}
			_, err := pids.GetOwner()
			return err
		})},
	})...)
	b.r.Looks = append(b.r.Looks, takeTurns(fmt.Sprintf("refused, one of %d", n), rounds, budget, refusedFloor, []contestant{
		{refusedFloor, timed(func() error { return refusedFlock(one) })},
		{oursName, timed(func() error {
			if held, err := (lock.File{Path: one}).TryAcquire(context.Background()); err == nil {
				return errors.Join(errors.New("not refused"), held.Release())
			}
			return nil
		})},
	})...)
	b.r.Looks = append(b.r.Looks, takeTurns(fmt.Sprintf("list %d", n), rounds, budget, readFloor, []contestant{
		{readFloor, timed(func() error { return readAll(dir, ".lock") })},
		{bothFloor, timed(func() error { return readAll(dir, ".lock", ".flock") })},
		{oursName, timed(func() error {
			found := 0
			for _, err := range lock.List(context.Background(), dir) {
				if err != nil {
					return err
				}
				found++
			}
			if found != n {
				return fmt.Errorf("%d locks of %d", found, n)
			}
			return nil
		})},
	})...)
}

// refusedFlock is what it takes to be refused, and to learn by whom.
func refusedFlock(path string) error {
	fd, err := unix.Open(path+".flock", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		return errors.Join(errors.New("not refused"), err)
	}
	_, err = os.ReadFile(path)
	return errors.Join(err, unix.Close(fd))
}

func timed(do func() error) func() (float64, error) {
	return func() (float64, error) {
		begin := clock()
		err := do()
		return float64(clock() - begin), err
	}
}

// populate takes n locks in a folder, and returns how to release them.
func populate(dir string, n int) (release func(), err error) {
	var all []*lock.FileHold
	release = func() {
		for _, held := range all {
			held.Release()
		}
	}
	for i := range n {
		f := lock.File{Path: filepath.Join(dir, strconv.Itoa(i)+".lock"), Cmd: "bench"}
		held, err := f.TryAcquire(context.Background())
		if err != nil {
			return release, fmt.Errorf("with %d locks held: %w", i, err)
		}
		all = append(all, held)
	}
	return release, nil
}

func readAll(dir string, kinds ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(kinds, filepath.Ext(e.Name())) {
			if _, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
