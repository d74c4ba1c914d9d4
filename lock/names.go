package lock

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Suffixes of the files beside a lock file.
const (
	siblingSuffix = ".flock"
	markerSuffix  = ".reclaim"
)

// maxBase leaves room for the longest suffix, that of the right to remove a marker, in
// the 255 bytes that filesystems allow.
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

// isOurs reports whether a file's name is one that stands beside a lock file.
func isOurs(name string) bool {
	return strings.HasSuffix(name, siblingSuffix) || strings.HasSuffix(name, markerSuffix) ||
		strings.Contains(name, markerSuffix+".")
}

// isBeside reports whether a suffix is one that this package gives to a marker, and to what is
// made beside one.
func isBeside(suffix string) bool {
	further, is := strings.CutPrefix(suffix, markerSuffix)
	if further == "" || further == ".new" {
		return is
	}
	further, dotted := strings.CutPrefix(further, ".")
	return is && dotted && (isAll(further, 2*16, "0123456789abcdef") || isAll(further, nonceLength, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
}

func isAll(s string, length int, of string) bool {
	return len(s) == length && strings.Trim(s, of) == ""
}

// checkName refuses a name that can't safely be one element of a path.
func checkName(what, name string) error {
	bad := func(why string) error { return fmt.Errorf("%w: %s %q %s", ErrInvalidName, what, name, why) }
	switch {
	case name == "":
		return bad("is empty")
	case name == "." || name == "..":
		return bad("names a folder")
	case len(name) > 255:
		return bad("is longer than 255 bytes")
	case strings.ContainsAny(name, `/\`):
		return bad("has a path separator")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }):
		return bad("has a control character, or is not UTF-8")
	case !filepath.IsLocal(name):
		return bad("is not a file name on this system")
	}
	return nil
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
