//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package platform

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// filesystemKind gives the name that the kernel itself uses: "apfs", "ufs",
// "ffs", "zfs", "hammer2", "nfs", "nullfs".
func filesystemKind(path string) (string, error) {
	kind, err := typeName(path)
	for err == unix.EINTR {
		kind, err = typeName(path)
	}
	if err != nil {
		return "", &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if kind == "" {
		kind = "unknown"
	}
	return kind, nil
}
