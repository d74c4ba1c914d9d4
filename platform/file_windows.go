package platform

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

const (
	// openNoFollow opens a symbolic link itself, which then is not a regular file. os.OpenFile,
	// by which package flock opens, passes it on since Go 1.26.
	openNoFollow = windows.O_FILE_FLAG_OPEN_REPARSE_POINT
	openNonBlock = 0
)

const shareAll = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

// openHandle opens what is at path, a directory too, to look at its attributes. That conflicts
// with nobody's share mode.
func openHandle(path string, flags uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err == nil {
		var h windows.Handle
		h, err = windows.CreateFile(name, windows.FILE_READ_ATTRIBUTES, shareAll, nil,
			windows.OPEN_EXISTING, flags|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
		if err == nil {
			return h, nil
		}
	}
	return 0, &fs.PathError{Op: "open", Path: path, Err: err}
}

// describe: on NTFS the index has a sequence number in it and is not used again. On ReFS it is
// cut down to 64 bits and need not be unique. Source: BY_HANDLE_FILE_INFORMATION.
func describe(path string, info fs.FileInfo, f *os.File) (Info, FileID, error) {
	var h windows.Handle
	if f != nil {
		h = windows.Handle(f.Fd())
	} else {
		var err error
		if h, err = openHandle(path, windows.FILE_FLAG_OPEN_REPARSE_POINT); err != nil {
			return Info{}, FileID{}, err
		}
		defer windows.CloseHandle(h)
	}
	var d windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &d); err != nil {
		return Info{}, FileID{}, &fs.PathError{Op: "GetFileInformationByHandle", Path: path, Err: err}
	}
	i := infoOf(info)
	if d.FileAttributes&windows.FILE_ATTRIBUTE_TEMPORARY != 0 {
		i.Mode |= fs.ModeSticky // the mark
	}
	return i, FileID{Dev: uint64(d.VolumeSerialNumber), Ino: uint64(d.FileIndexHigh)<<32 | uint64(d.FileIndexLow)}, nil
}

// keepsMarks: the mark is the attribute "temporary".
const keepsMarks = true

// openFile calls CreateFile itself. os.OpenFile can't set the mark, and lets nobody, this
// process included, remove or rename a file that is open.
func openFile(path string, flag int, mark bool, _ fs.FileMode) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	access, how := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING)
	switch {
	case flag&os.O_WRONLY != 0:
		access = windows.GENERIC_WRITE
	case flag&os.O_RDWR != 0:
		access |= windows.GENERIC_WRITE
	}
	switch {
	case flag&os.O_EXCL != 0:
		how = windows.CREATE_NEW
	case flag&os.O_CREATE != 0:
		how = windows.OPEN_ALWAYS
	}
	attributes := uint32(windows.FILE_ATTRIBUTE_NORMAL)
	if mark {
		attributes = windows.FILE_ATTRIBUTE_TEMPORARY
	}
	var h windows.Handle
	err = retry(func() (again bool, err error) {
		h, err = windows.CreateFile(name, access, shareAll, nil, how, attributes|openNoFollow|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
		return flag&os.O_CREATE != 0 && err == windows.ERROR_ACCESS_DENIED && deletePending(name), err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}

// isNoLinks: FAT says ERROR_INVALID_FUNCTION.
func isNoLinks(err error) bool { return errors.Is(err, windows.ERROR_INVALID_FUNCTION) }

func isNotRegular(error) bool { return false }

// isNoLocks: LockFileEx has no such answer.
func isNoLocks(error) bool { return false }

// removeFile: a file that somebody has open without sharing its deletion, such as one that
// package os opened, can't be removed; most are open for a moment only. A read-only file can't
// either, unlike on other systems, until it is no longer read-only.
func removeFile(path string) error {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	return retry(func() (again bool, err error) {
		err = windows.DeleteFile(name)
		if err == windows.ERROR_ACCESS_DENIED {
			const readOnly = windows.FILE_ATTRIBUTE_READONLY
			is, aerr := windows.GetFileAttributes(name)
			if aerr == nil && is&(readOnly|windows.FILE_ATTRIBUTE_DIRECTORY) == readOnly && windows.SetFileAttributes(name, is&^readOnly) == nil {
				err = windows.DeleteFile(name)
			}
		}
		return err == windows.ERROR_SHARING_VIOLATION ||
			err == windows.ERROR_ACCESS_DENIED && deletePending(name), err
	})
}

// replaceFile: MoveFileEx says ERROR_ACCESS_DENIED, too, when the file at to is open.
func replaceFile(from, to string) error {
	return retry(func() (again bool, err error) {
		err = os.Rename(from, to)
		return errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
			errors.Is(err, windows.ERROR_ACCESS_DENIED), err
	})
}

// renameNew: MoveFile replaces nothing.
func renameNew(from, to string) error {
	old, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	new, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	return windows.MoveFile(old, new)
}

// deletePending tells a file that is removed, but stays until its last handle is closed, from
// one that access is really denied to: not even the attributes of the former are available.
// Source: DeleteFile, remarks.
func deletePending(name *uint16) bool {
	_, err := windows.GetFileAttributes(name)
	return err == windows.ERROR_ACCESS_DENIED
}

// retry calls f again while f asks for that, for two seconds at most: virus scanners and
// indexers open files that are none of theirs. The go command does likewise, in
// cmd/internal/robustio.
func retry(f func() (again bool, err error)) error {
	deadline := time.Now().Add(2 * time.Second)
	for wait := time.Millisecond; ; wait *= 2 {
		again, err := f()
		if !again || time.Now().Add(wait).After(deadline) {
			return err
		}
		time.Sleep(wait)
	}
}
