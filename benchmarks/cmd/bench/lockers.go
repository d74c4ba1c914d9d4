//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/alexflint/go-filemutex"
	"github.com/caddyserver/certmagic"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/containers/storage/pkg/lockfile"
	gofslocks "github.com/danjacques/gofslock/fslock"
	"github.com/gofrs/flock"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/juju/fslock"
	"github.com/juju/mutex/v2"
	nightly "github.com/nightlyone/lockfile"
	promutil "github.com/prometheus/prometheus/tsdb/fileutil"
	"github.com/rogpeppe/go-internal/lockedfile"
	etcdutil "go.etcd.io/etcd/client/pkg/v3/fileutil"
	go4lock "go4.org/lock"
	"golang.org/x/sys/unix"
)

// polled makes a locker of one that only tries.
func polled(try locker) locker {
	return func(path string) (func() error, error) {
		for {
			release, err := try(path)
			if !errors.Is(err, errBusy) {
				return release, err
			}
			time.Sleep(ownPoll)
		}
	}
}

func bareFlock(path string) (func() error, error)  { return bare(path, unix.LOCK_EX) }
func bareShared(path string) (func() error, error) { return bare(path, unix.LOCK_SH) }

func bare(path string, how int) (func() error, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := again(func() error { return unix.Flock(fd, how) }); err != nil {
		return nil, err
	}
	return func() error { return unix.Close(fd) }, nil
}

// again goes on after a signal, of which Go's scheduler sends many.
func again(take func() error) error {
	for {
		if err := take(); err != unix.EINTR {
			return err
		}
	}
}

func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func holdfast(path string) (func() error, error) {
	held, err := lock.File{Path: path}.Acquire(context.Background())
	if err != nil {
		return nil, err
	}
	return held.Release, nil
}

func holdfastShared(path string) (func() error, error) {
	held, err := lock.File{Path: path, Shared: true}.Acquire(context.Background())
	if err != nil {
		return nil, err
	}
	return held.Release, nil
}

func gofrs(path string) (func() error, error) {
	f := flock.New(path)
	return f.Unlock, f.Lock()
}

func gofrsShared(path string) (func() error, error) {
	f := flock.New(path)
	return f.Unlock, f.RLock()
}

func gofrsContext(path string) (func() error, error) {
	f := flock.New(path)
	_, err := f.TryLockContext(context.Background(), ownPoll)
	return f.Unlock, err
}

func lockedFile(path string) (func() error, error) {
	unlock, err := lockedfile.MutexAt(path).Lock()
	return func() error { unlock(); return nil }, err
}

func lockedFileShared(path string) (func() error, error) {
	f, err := lockedfile.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	return f.Close, err
}

// clockOf is what juju/mutex wants to be given.
type clockOf struct{}

func (clockOf) Now() time.Time                         { return time.Now() }
func (clockOf) After(d time.Duration) <-chan time.Time { return time.After(d) }

// jujuMutex has names, not paths: its files lie in the folder for temporary ones,
// which may be set only once, as it is read each time.
func jujuMutex(path string) (func() error, error) {
	if dir := filepath.Dir(path); os.Getenv("TMPDIR") != dir {
		os.Setenv("TMPDIR", dir)
	}
	r, err := mutex.Acquire(mutex.Spec{Name: filepath.Base(path), Clock: clockOf{}, Delay: ownPoll})
	return func() error { r.Release(); return nil }, err
}

func jujuFslock(path string) (func() error, error) {
	l := fslock.New(path)
	return l.Unlock, again(func() error {
		err := l.Lock()
		if err == unix.EINTR {
			l.Unlock()
		}
		return err
	})
}

func nightlyone(path string) (func() error, error) {
	l, err := nightly.New(path)
	if err != nil {
		return nil, err
	}
	for {
		err := l.TryLock()
		temporary, ok := err.(interface{ Temporary() bool })
		// It reports a file that went away while it looked as if that were final.
		if again := ok && temporary.Temporary() || errors.Is(err, fs.ErrNotExist); !again {
			return l.Unlock, err
		}
		time.Sleep(ownPoll)
	}
}

func fileMutex(path string) (func() error, error) {
	m, err := filemutex.New(path)
	if err != nil {
		return nil, err
	}
	return m.Close, again(m.Lock)
}

func fileMutexShared(path string) (func() error, error) {
	m, err := filemutex.New(path)
	if err != nil {
		return nil, err
	}
	return m.Close, again(m.RLock)
}

func gofslock(path string) (func() error, error)       { return gofslockAs(path, false) }
func gofslockShared(path string) (func() error, error) { return gofslockAs(path, true) }

func gofslockAs(path string, shared bool) (func() error, error) {
	l := gofslocks.L{Path: path, Shared: shared, Block: func() error { time.Sleep(ownPoll); return nil }}
	handle, err := l.Lock()
	if err != nil {
		return nil, err
	}
	return handle.Unlock, nil
}

// closing tells contention from other errors; what only says so in words is taken
// for contention within this process.
func closing(c io.Closer, err error, words bool) (func() error, error) {
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES), err != nil && words:
		return nil, errBusy
	case err != nil:
		return nil, err
	}
	return c.Close, nil
}

func go4(path string) (func() error, error) {
	c, err := go4lock.Lock(path)
	return closing(c, err, true)
}

func etcd(path string) (func() error, error) {
	f, err := etcdutil.LockFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}

func containers(path string) (func() error, error) {
	l, err := lockfile.GetLockFile(path)
	if err != nil {
		return nil, err
	}
	l.Lock()
	return func() error { l.Unlock(); return nil }, nil
}

func containersShared(path string) (func() error, error) {
	l, err := lockfile.GetLockFile(path)
	if err != nil {
		return nil, err
	}
	l.RLock()
	return func() error { l.Unlock(); return nil }, nil
}

func pebble(path string) (func() error, error) {
	c, err := vfs.Default.Lock(path)
	return closing(c, err, err != nil && err.Error() == "lock held by current process")
}

func prometheus(path string) (func() error, error) {
	r, _, err := promutil.Flock(path)
	if errors.Is(err, unix.EAGAIN) {
		return nil, errBusy
	} else if err != nil {
		return nil, err
	}
	return r.Release, nil
}

func certMagic(path string) (func() error, error) {
	s, name := &certmagic.FileStorage{Path: filepath.Dir(path)}, filepath.Base(path)
	if err := s.Lock(context.Background(), name); err != nil {
		return nil, err
	}
	return func() error { return s.Unlock(context.Background(), name) }, nil
}
