package platform

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls with a path that each acquisition makes. Package unix copies a path to the heap for
// each of them; here it lies on the stack.

// A pathRoom has room for a path, and a NUL behind it.
type pathRoom [512]byte

// end puts a path into the room, or on the heap if it is too long.
func (r *pathRoom) end(path string) (*byte, error) {
	if len(path) >= len(r) {
		return unix.BytePtrFromString(path)
	}
	if strings.IndexByte(path, 0) >= 0 {
		return nil, unix.EINVAL
	}
	r[copy(r[:], path)] = 0
	return &r[0], nil
}

func openPath(path string, flags int, mode uint32) (fd int, err error) {
	var room pathRoom
	p, err := room.end(path)
	if err != nil {
		return -1, err
	}
	dir := unix.AT_FDCWD
	n, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags|unix.O_LARGEFILE), uintptr(mode), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

func statPath(dir int, path string, flags, mask int, x *unix.Statx_t) error {
	var room pathRoom
	p, err := room.end(path)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags), uintptr(mask), uintptr(unsafe.Pointer(x)), 0); errno != 0 {
		return errno
	}
	return nil
}

func unlinkPath(path string) error {
	var room pathRoom
	p, err := room.end(path)
	if err != nil {
		return err
	}
	dir := unix.AT_FDCWD
	if _, _, errno := unix.Syscall(unix.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(p)), 0); errno != 0 {
		return errno
	}
	return nil
}
