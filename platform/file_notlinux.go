//go:build !linux

package platform

import (
	"errors"
	"io/fs"
	"os"
)

// newFile is a NewFile as package os has it.
type newFile struct {
	*os.File
	closed bool
}

func create(path string, incomplete bool) (NewFile, error) {
	f, err := createFile(path, incomplete)
	if err != nil {
		return nil, err
	}
	return &newFile{File: f}, nil
}

func (f *newFile) MarkComplete() error { return markComplete(f.File) }

func (f *newFile) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	return f.File.Close()
}

func sameInfo(a, b fs.FileInfo) bool { return os.SameFile(a, b) }

func changeTime(fs.FileInfo) int64 { return 0 }

func beingWritten(path string) (bool, error) {
	return false, &fs.PathError{Op: "lease", Path: path, Err: errors.ErrUnsupported}
}
