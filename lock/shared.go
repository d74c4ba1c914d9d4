package lock

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Readers have the kernel lock of the sibling and of the lock file together, LOCK_SH. The
// first one in creates the lock file, with mode "shared", and locks it shared from the
// start, as flock(2) does not convert in one step. Each further one takes its shared own
// lock. The file stands for all of them, until the last one out removes it. That is the one
// who, having let go, gets the exclusive lock: they are alone. A reader that dies, the
// first and the last included, leaves at most a file whose own lock is free.

// isReaders reports whether a file is one that readers may have together.
func (p *place) isReaders(f *finding) bool {
	if f.claim == nil || f.claim.Mode != modeShared || f.claim.released {
		return false
	}
	here, copied := p.asLock(f.claim.KernelLock, f.file.ID())
	return here && !copied
}

// join joins a lock file that another reader has made, and whose shared lock is ours.
func (a *attempt) join(f *finding) *ownFile {
	own := &ownFile{file: f.file, path: a.file.Path, data: f.data, written: f.info.Modified, claim: a.newClaim(f.file, platform.Shared)}
	own.claim.Nonce = f.claim.Nonce
	return own
}

// leave lets go of a readers' file, and removes it if nobody else has it.
func (p *place) leave(f *platform.File, at func(step)) error {
	if err := f.Unlock(); err != nil {
		return err
	}
	at(stepSharedDropped)
	for try := 1; ; try++ {
		switch err := f.TryLock(platform.Exclusive); {
		case err == nil:
			at(stepAlone)
			return p.clear(f, p.file.Path, at)
		case err != platform.ErrBusy:
			return err
		}
		// Others read, and the last of them does the same. Or we were the last, and
		// somebody has the lock for an instant, only to look.
		switch err := f.TryLock(platform.Shared); {
		case err == nil || try == passageTries:
			err = f.Unlock()
			p.clearSoon()
			return err
		case err != platform.ErrBusy:
			return err
		}
		time.Sleep(passage)
	}
}

// clear removes the file at path, if it is still there (rule B) and nobody's claim: that of
// readers who have all gone, or of one who died while claiming. The caller has its
// exclusive own lock (rule A), and no use for it.
func (p *place) clear(f *platform.File, path string, at func(step)) error {
	var is finding
	if err := is.read(p, f); err != nil || !p.isReaders(&is) && !(is.content == contentNone && is.info.Marked()) {
		return err
	}
	if stands, err := f.IsAt(path); err != nil || !stands {
		return err
	}
	err := ignoreAbsent(platform.Remove(path))
	at(stepRemoved)
	return err
}

// clearing has the locks for which a goroutine of clearSoon is at work. clearingMu guards
// it.
var (
	clearingMu sync.Mutex
	clearing   = map[string]bool{}
)

// clearSoon looks again, a few times, whether the readers' file can be removed.
func (p *place) clearSoon() {
	clearingMu.Lock()
	defer clearingMu.Unlock()
	if clearing[p.file.Path] {
		return
	}
	clearing[p.file.Path] = true
	go func() {
		for delay := time.Millisecond; delay < time.Second; delay *= 4 {
			time.Sleep(delay)
			f, err := p.open(p.file.Path)
			if err != nil {
				break
			}
			last := 4*delay >= time.Second
			err = f.TryLock(platform.Exclusive)
			if err == platform.ErrBusy && last && f.TryLock(platform.Shared) == platform.ErrBusy {
				// Those who have it are no readers: somebody was stopped while looking.
				parkAlone(func() { p.giveBack(f, p.file.Path, platform.Exclusive, f.WaitLock(platform.Exclusive)) },
					func() { _ = f.Close() })
				break
			}
			p.giveBack(f, p.file.Path, platform.Exclusive, err)
			if err != platform.ErrBusy {
				break
			}
		}
		clearingMu.Lock()
		defer clearingMu.Unlock()
		delete(clearing, p.file.Path)
	}()
}

// abandon removes a file that we have made, and did not come to use. If somebody looks at
// it, a thread waits for that first (rule A). A nil file does nothing.
func abandon(f *platform.File, path string) {
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
	parkAlone(func() {
		_ = f.WaitLock(platform.Exclusive)
		remove()
	}, func() { _ = f.Close() })
}
