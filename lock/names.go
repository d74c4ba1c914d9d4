package lock

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
)

// Suffixes of the files beside a lock file.
const (
	siblingSuffix = ".flock"
	markerSuffix  = lockfile.MarkerSuffix
)

// maxBase leaves room for the longest suffix, that of the right to remove a marker, in the 255
// bytes that filesystems allow.
const maxBase = 255 - len(markerSuffix) - len(".") - 2*16

// checkPath refuses what can't be a lock's path, before anything is touched.
func checkPath(path string) error {
	base := filepath.Base(path)
	switch {
	case path == "":
		return fmt.Errorf("%w: the lock's path is empty", ErrInvalidName)
	case strings.ContainsRune(path, 0):
		return fmt.Errorf("%w: lock path %q has a NUL", ErrInvalidName, path)
	case base == "." || base == ".." || path[len(path)-1] == '/' || path[len(path)-1] == filepath.Separator:
		return fmt.Errorf("%w: lock path %q names a folder", ErrInvalidName, path)
	case len(base) > maxBase:
		return fmt.Errorf("%w: the name in lock path %q has %d bytes; the files beside it leave room for %d", ErrInvalidName, path, len(base), maxBase)
	case isOurs(base):
		return fmt.Errorf("%w: lock path %q has a suffix of the files beside a lock", ErrInvalidName, path)
	}
	return nil
}

// isOurs reports whether a file of this name stands beside a lock file.
func isOurs(name string) bool {
	return strings.HasSuffix(name, siblingSuffix) || strings.HasSuffix(name, markerSuffix) ||
		strings.Contains(name, markerSuffix+".")
}

// absolute makes a path absolute, and does not clean it: "link/../name" is not "name".
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	if runtime.GOOS == "windows" {
		return filepath.Abs(path) // a path can be relative to a drive's folder
	}
	wd, err := os.Getwd()
	return wd + "/" + path, err
}
