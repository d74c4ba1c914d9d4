//go:build js || plan9 || wasip1

package platform

import (
	"io/fs"
	"os"
)

// openNoFollow: Plan 9 has no symbolic links, and package syscall does not pass it on to
// Node.js. Open has looked before.
const openNoFollow, openNonBlock = 0, 0

const keepsMarks = false

func createFile(path string, _ bool) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

func identify(f *os.File) (FileID, error) { return identity(f.Stat()) }

func identifyAt(_ string, info fs.FileInfo) (FileID, error) { return identity(info, nil) }

func links(fs.FileInfo) uint64 { return 1 }

// isNoLinks: see File.Link.
func isNoLinks(error) bool { return true }

func isNotRegular(error) bool { return false }

// isNoLocks: see File.TryLock. There are no locks to be had anyway.
func isNoLocks(error) bool { return false }

// replaceFile is not atomic on Plan 9, which can't rename over a file: package os
// removes the one at to first. Nor can it move a file to another folder there.
func replaceFile(from, to string) error { return os.Rename(from, to) }

func renameNew(from, to string) error { return linkNew(from, to) }

func isMarked(fs.FileInfo) bool { return false }
