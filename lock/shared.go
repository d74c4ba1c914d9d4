package lock

import "github.com/holdfast-go/holdfast/platform"

// Readers have the kernel lock together, LOCK_SH. The first one in creates the
// lock file, with mode "shared"; the others join it. It stands for all of them,
// until the last one out removes it: whoever, having let go, gets the exclusive
// kernel lock is alone. A reader that dies, the first and the last included,
// leaves at most a lock file whose readers are gone, which the kernel lock shows
// to the next one who comes: a reader joins it, a writer takes it over.

// isReaders reports whether a lock file stands for the readers who have the kernel
// lock of this sibling.
func (f *found) isReaders(sibling platform.FileID) bool {
	return f.kind == claimReadable && f.claim.Mode == modeShared && f.claim.Flock == sibling.String()
}

// join takes part in a lock file that another reader has made.
func (a *attempt) join(f *found) *ownFile {
	return &ownFile{claim: a.newClaim(), nonce: f.claim.Nonce, info: f.info}
}

// checkStill returns ErrLost unless the readers' lock file is still there. While
// one of them has the kernel lock, no participant replaces it.
func (h *Held) checkStill() error { return h.own.check(h.attempt.file.Path) }

// dropAsReader lets go of the kernel lock, and then removes the readers' lock file if
// we were the last of them, also those of a sibling that was replaced since.
func (a *attempt) dropAsReader() error {
	last, err := a.kernel.TurnExclusive()
	if err != nil {
		return err
	}
	a.at(stepUnlocked)
	if last {
		removeReaders(a.file.Path, a.sibling)
		a.at(stepRemoved)
	}
	return a.dropKernelLock()
}

// clearReaders removes a readers' lock file whose readers have all gone, as the
// exclusive kernel lock, which the caller has and does not use, shows. The last
// reader can't, when that lock goes to somebody else the moment it lets go.
func clearReaders(path string, kernel *platform.KernelLock) {
	if id, same, err := kernel.At(path + siblingSuffix); err == nil && same {
		removeReaders(path, id)
	}
}

// removeReaders is for who has the exclusive kernel lock of this sibling. What can't be
// told or removed stays, for whoever acquires the lock next.
func removeReaders(path string, sibling platform.FileID) {
	if f, err := look(path); err == nil && f.isReaders(sibling) {
		_ = platform.Remove(path)
	}
}
