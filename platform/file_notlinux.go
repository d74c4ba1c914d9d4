//go:build !linux

package platform

import (
	"errors"
	"io/fs"
)

func changeTime(fs.FileInfo) int64 { return 0 }

func beingWritten(path string) (bool, error) {
	return false, &fs.PathError{Op: "lease", Path: path, Err: errors.ErrUnsupported}
}
