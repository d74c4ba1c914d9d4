//go:build unix

package locktest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// takePlace has this process be the only one in a place of the room, by a lock of fcntl(2) on a
// byte of a file. The kernel drops that with the process: as it closes its files, and so
// before any lock of flock(2), or a connection, is gone. The error says that another process
// is there. A process has one place at a time: closing the file leaves all.
func (r room) takePlace(n int) (leave func() error, err error) {
	f, err := os.OpenFile(filepath.Join(r.Dir, "places"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	one := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: int64(n), Len: 1}
	switch err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &one); {
	case err == syscall.EAGAIN || err == syscall.EACCES:
		err = fmt.Errorf("%s is not alone in place %d", r.name(), n)
	case err == nil:
		return f.Close, nil
	}
	return nil, errors.Join(err, f.Close())
}
