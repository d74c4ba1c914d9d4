//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package platform

import (
	"io/fs"
)

// filesystemKind gives the name that the kernel itself uses: "apfs", "ufs",
// "ffs", "zfs", "hammer2", "nfs", "nullfs".
func filesystemKind(path string) (string, error) {
	var kind string
	err := again(func() (err error) { kind, err = typeName(path); return err })
	if err != nil {
		return "", &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if kind == "" {
		kind = "unknown"
	}
	return kind, nil
}
