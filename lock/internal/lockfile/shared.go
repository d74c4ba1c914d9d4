package lockfile

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// Readers have the kernel lock of the sibling and of the lock file together, LOCK_SH. The
// first reader creates the lock file, with mode "shared", and locks it shared from the start,
// as flock(2) does not convert in one step. Each further reader takes its shared own lock. The
// file stands for all of them, until the last one out removes it. A reader knows that it is
// the last, and alone, if it gets the exclusive lock after letting go. A reader that dies, the
// first and the last included, leaves at most a file whose own lock is free.

// isReaders reports whether readers may have a file together.
func (l *Lock) isReaders(f *Finding) bool {
	if f.Claim == nil || f.Claim.Mode != evidence.ModeShared || f.Claim.Released {
		return false
	}
	here, copied := l.asLock(f.Claim.KernelLock, f.File.ID())
	return here && !copied
}

// join joins a lock file that another reader has made, and whose shared lock is ours.
func (t *Taker) join(f *Finding) *Own {
	own := &Own{File: f.File, Path: t.Path, Data: f.Data, written: f.Info.Modified, Claim: t.newClaim(f.File, platform.Shared, t.Now())}
	own.Claim.Nonce = f.Claim.Nonce
	return own
}

// leave lets go of a readers' file, and removes it if nobody else has it.
func (l *Lock) leave(f *platform.File, at func(string)) error {
	if err := f.Unlock(); err != nil {
		return err
	}
	at(StepSharedDropped)
	for try := 1; ; try++ {
		switch err := f.TryLock(platform.Exclusive); {
		case err == nil:
			at(StepAlone)
			return l.clear(f, l.Path, at)
		case err != platform.ErrBusy:
			return err
		}
		// Others read, and the last of them does the same. Or we were the last, and somebody has
		// the lock for an instant, only to look.
		switch err := f.TryLock(platform.Shared); {
		case err == nil || try == pace.Tries:
			err = f.Unlock()
			l.clearSoon()
			return err
		case err != platform.ErrBusy:
			return err
		}
		time.Sleep(pace.Passage)
	}
}

// clear removes the file at path, if it is still there (rule B) and nobody's claim: that of
// readers that have all gone, or of a process that died while claiming. The caller has its
// exclusive own lock (rule A), and no use for it.
func (l *Lock) clear(f *platform.File, path string, at func(string)) error {
	var is Finding
	if err := is.read(l, f); err != nil || !l.isReaders(&is) && !(is.Content == evidence.ContentNone && is.Info.Marked() && is.isDebris()) {
		return err
	}
	if stands, err := f.IsAt(path); err != nil || !stands {
		return err
	}
	err := fail.UnlessAbsent(platform.Remove(path))
	at(StepRemoved)
	return err
}

// Clearing has the locks of a process for which a goroutine looks whether their readers' file
// can go. The zero value has none. Several goroutines may use it at once.
type Clearing struct {
	mu    sync.Mutex
	paths map[string]bool
}

// Begin adds a lock; false if it is there already.
func (c *Clearing) Begin(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paths[path] {
		return false
	}
	if c.paths == nil {
		c.paths = map[string]bool{}
	}
	c.paths[path] = true
	return true
}

func (c *Clearing) end(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.paths, path)
}

// Count returns how many locks there are.
func (c *Clearing) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.paths)
}

// clearSoon looks again, a few times, whether the readers' file can be removed.
func (l *Lock) clearSoon() {
	if !l.Clearing.Begin(l.Path) {
		return
	}
	go func() {
		defer l.Clearing.end(l.Path)
		for delay := time.Millisecond; delay < time.Second; delay *= 4 {
			time.Sleep(delay)
			f, err := l.Open(l.Path)
			if err != nil {
				return
			}
			last := 4*delay >= time.Second
			err = f.TryLock(platform.Exclusive)
			if err == platform.ErrBusy && last && f.TryLock(platform.Shared) == platform.ErrBusy {
				// No reader has it: a process was stopped while looking.
				l.Parker.ParkAlone(func() { l.GiveBack(f, l.Path, platform.Exclusive, f.WaitLock(platform.Exclusive)) },
					func() { _ = f.Close() })
				return
			}
			l.GiveBack(f, l.Path, platform.Exclusive, err)
			if err != platform.ErrBusy {
				return
			}
		}
	}()
}

// Abandon removes a file that we have made, and did not come to use. If somebody looks at it,
// a thread waits for that first (rule A). A nil file does nothing.
func (l *Lock) Abandon(f *platform.File, path string) {
	if f == nil {
		return
	}
	remove := func() {
		if at, err := f.IsAt(path); err == nil && at { // rule B
			_ = platform.Remove(path)
		}
		_ = f.Close()
	}
	if f.TryLock(platform.Exclusive) != platform.ErrBusy { // where there are no locks, it is ours alone
		remove()
		return
	}
	l.Parker.ParkAlone(func() {
		_ = f.WaitLock(platform.Exclusive)
		remove()
	}, func() { _ = f.Close() })
}

// GiveBack lets go of a file's own lock that came when nobody was left to take it.
func (l *Lock) GiveBack(f *platform.File, path string, mode platform.Mode, err error) {
	if err == nil && mode == platform.Shared {
		_ = l.leave(f, func(string) {})
	} else if err == nil {
		_ = l.clear(f, path, func(string) {})
	}
	_ = f.Close()
}
