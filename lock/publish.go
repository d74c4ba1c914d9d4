package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast-go/holdfast/platform"
)

// ownFile is a complete claim of ours on disk.
type ownFile struct {
	claim LockInfo
	nonce string // in the file; a reader's own claim may not be the one there
	info  fs.FileInfo
	// open is the file itself, where the claim must be renewed in place.
	open platform.NewFile
}

// publish creates the file at path with a claim of ours. Under a kernel lock the
// file says until the claim is whole that it isn't, by the act that creates it: a
// crash in between leaves something that anyone can tell from a claim. When it fails nothing of ours is
// left; the error matches fs.ErrExist when something is there already.
func (a *attempt) publish(path string, created, written, complete step) (*ownFile, error) {
	own := &ownFile{claim: a.newClaim()}
	own.nonce = own.claim.Nonce
	data, err := a.encode(own.claim)
	if err != nil {
		return nil, err
	}
	create, finish := platform.CreateIncomplete, platform.NewFile.MarkComplete
	if a.kernel == nil {
		// The mark says "under a kernel lock". Somebody who has one must not find
		// it on a file that is just being written without.
		create, finish = platform.Create, func(platform.NewFile) error { return nil }
	}
	f, err := create(path)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	a.at(created)
	_, err = f.Write(data)
	if err == nil {
		a.at(written)
		err = finish(f)
	}
	if err == nil {
		own.info, err = f.Stat()
	}
	if err == nil && a.renews() {
		own.open = f
	} else {
		err = also(err, f.Close()) // a full disk may show only here
	}
	if err != nil {
		return nil, also(fmt.Errorf("lock: %w", err), platform.Remove(path))
	}
	a.at(complete)
	return own, nil
}

// close closes the file where it was kept open.
func (o *ownFile) close() error {
	if o.open == nil {
		return nil
	}
	return o.open.Close()
}

// check returns ErrLost unless the file at path is the one we made. A look at
// its inode, size and times nearly always says so; where it doesn't (the file was
// renamed into its place, or somebody touched it), the nonce in it does.
func (o *ownFile) check(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrLost
	} else if err != nil {
		return pathError("check", path, err)
	}
	if platform.Unchanged(info, o.info) {
		return nil
	}
	f, err := look(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrLost
	case err != nil:
		return pathError("check", path, err)
	case f.claim == nil || f.claim.Nonce != o.nonce:
		return ErrLost
	}
	return nil
}
