package lock

import "github.com/holdfast-go/holdfast/platform"

// Readers have the kernel lock together, LOCK_SH. The first one in creates the
// lock file, with mode "shared"; the others join it. It stands for all of them,
// until the last one out removes it: whoever, having let go, gets the exclusive
// kernel lock is alone. A reader that dies, the first and the last included,
// leaves at most a lock file whose readers are gone, which the kernel lock shows
// to the next one who comes: a reader joins it, a writer takes it over.

// isReaders reports whether a lock file stands for the readers under the very
// sibling whose kernel lock we share.
func (a *attempt) isReaders(f *found) bool {
	return f.kind == claimReadable && f.claim.Mode == modeShared && f.claim.Flock == a.sibling.String()
}

// join takes part in a lock file that another reader has made.
func (a *attempt) join(f *found) *ownFile {
	return &ownFile{claim: a.newClaim(), nonce: f.claim.Nonce, info: f.info}
}

// checkStill returns ErrLost unless the readers' lock file is still there. While
// one of them has the kernel lock, no participant replaces it.
func (h *Held) checkStill() error { return h.own.check(h.attempt.file.Path) }

// removeAsLast removes the readers' lock file if we, who have let go of the kernel
// lock, were the last.
func (h *Held) removeAsLast() {
	a := h.attempt
	kernel, err := platform.TryKernelLock(a.siblingPath(), platform.Exclusive)
	if err != nil {
		return
	}
	clearReaders(a.file.Path, kernel)
	a.at(stepRemoved)
	_ = kernel.Unlock()
}

// clearReaders removes a readers' lock file whose readers have all gone, as the
// exclusive kernel lock, which the caller has and does not use, shows. The last
// reader can't, when that lock goes to somebody else the moment it lets go. What
// can't be told or removed stays, for whoever acquires the lock next.
func clearReaders(path string, kernel *platform.KernelLock) {
	id, same, err := kernel.At(path + siblingSuffix)
	if err != nil || !same {
		return
	}
	f, err := look(path)
	if err == nil && f.kind == claimReadable && f.claim.Mode == modeShared && f.claim.Flock == id.String() {
		_ = platform.Remove(path)
	}
}
