package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	// openNoFollow opens a symbolic link itself, which then is not a regular
	// file. os.OpenFile passes it on since Go 1.26.
	openNoFollow = windows.O_FILE_FLAG_OPEN_REPARSE_POINT
	openNonBlock = 0
)

const shareAll = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

// openHandle opens what is at path, a directory too, to look at its attributes.
// That conflicts with nobody's share mode.
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

// identifyFile: on NTFS the index has a sequence number in it and is not used
// again, while the time of creation is handed on to a file that takes a removed
// one's name within 15 seconds ("tunneling", KB 172190). On ReFS the index is cut
// down to 64 bits and need not be unique. Source: BY_HANDLE_FILE_INFORMATION.
func identifyFile(path string) (FileID, error) {
	h, err := openHandle(path, windows.FILE_FLAG_OPEN_REPARSE_POINT)
	if err != nil {
		return FileID{}, err
	}
	defer windows.CloseHandle(h)
	var d windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &d); err != nil {
		return FileID{}, &fs.PathError{Op: "GetFileInformationByHandle", Path: path, Err: err}
	}
	id := FileID{
		Dev: uint64(d.VolumeSerialNumber),
		Ino: uint64(d.FileIndexHigh)<<32 | uint64(d.FileIndexLow),
	}
	if d.CreationTime != (windows.Filetime{}) {
		id.Birth = d.CreationTime.Nanoseconds()
	}
	return id, nil
}

// sameFile has only os.SameFile to go by, as what Sys returns tells no files
// apart; so it looks at path again, and makes sure that id is still there after.
func sameFile(id FileID, path string, info fs.FileInfo) bool {
	now, err := os.Lstat(path)
	if err != nil || !os.SameFile(now, info) {
		return false
	}
	again, err := identifyFile(path)
	return err == nil && again == id
}

// createFile calls CreateFile itself, as os.OpenFile can't set the mark and
// does not let others remove or rename a file that is open.
func createFile(path string, incomplete bool) (*os.File, error) {
	attributes := uint32(windows.FILE_ATTRIBUTE_NORMAL)
	if incomplete {
		attributes = windows.FILE_ATTRIBUTE_TEMPORARY
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: err}
	}
	var h windows.Handle
	err = retry(func() (again bool, err error) {
		h, err = windows.CreateFile(name, windows.GENERIC_WRITE, shareAll, nil, windows.CREATE_NEW,
			attributes|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
		return err == windows.ERROR_ACCESS_DENIED && deletePending(name), err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}

func markComplete(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var markErr error
	if err := conn.Control(func(fd uintptr) { markErr = clearTemporary(windows.Handle(fd)) }); err != nil {
		return err
	}
	if markErr != nil {
		return &fs.PathError{Op: "SetFileInformationByHandle", Path: f.Name(), Err: markErr}
	}
	return nil
}

// clearTemporary needs no right to read: CreateFile grants FILE_READ_ATTRIBUTES
// with every access, as File.Chmod of package os relies on too.
func clearTemporary(h windows.Handle) error {
	var d windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &d); err != nil {
		return err
	}
	// FILE_BASIC_INFO. A time of 0 is left as it is, and so are attributes of 0:
	// NORMAL is the word for none.
	info := struct {
		creation, access, write, change int64
		attributes                      uint32
		_                               uint32
	}{attributes: d.FileAttributes &^ windows.FILE_ATTRIBUTE_TEMPORARY}
	if info.attributes == 0 {
		info.attributes = windows.FILE_ATTRIBUTE_NORMAL
	}
	return windows.SetFileInformationByHandle(h, windows.FileBasicInfo,
		(*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
}

func isIncomplete(info fs.FileInfo) bool {
	d, ok := info.Sys().(*syscall.Win32FileAttributeData)
	return ok && d.FileAttributes&windows.FILE_ATTRIBUTE_TEMPORARY != 0
}

// isNoLocks: see lockError. LockFileEx has no such answer.
func isNoLocks(error) bool { return false }

// removeFile calls DeleteFile itself: os.Remove would go on to RemoveDirectory.
// A file that somebody has open without sharing its deletion, such as one that
// package os opened, can't be removed; most are open for a moment only.
func removeFile(path string) error {
	name, err := windows.UTF16PtrFromString(path)
	if err == nil {
		err = retry(func() (again bool, err error) {
			err = windows.DeleteFile(name)
			return err == windows.ERROR_SHARING_VIOLATION ||
				err == windows.ERROR_ACCESS_DENIED && deletePending(name), err
		})
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// replaceFile: MoveFileEx says ERROR_ACCESS_DENIED, too, when the file at to is
// open.
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
	if err == nil {
		var new *uint16
		if new, err = windows.UTF16PtrFromString(to); err == nil {
			err = windows.MoveFile(old, new)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// deletePending tells a file that is removed, but stays until its last handle is
// closed, from one that access is really denied to: not even the attributes of
// the former can be had. Source: DeleteFile, remarks.
func deletePending(name *uint16) bool {
	_, err := windows.GetFileAttributes(name)
	return err == windows.ERROR_ACCESS_DENIED
}

// retry calls f again while it asks for that, for two seconds at most: virus
// scanners and indexers open files that are none of theirs. The go command does
// likewise, in cmd/internal/robustio.
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
