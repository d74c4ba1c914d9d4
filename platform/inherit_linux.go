//go:build !portable

package platform

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

func (d *descriptor) inheritable() (*os.File, error) {
	var fd int
	err := again(func() (err error) {
		fd, err = unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 3)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "lock"), nil
}

func inherited(number int) *os.File {
	flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil
	}
	fd, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "inherited")
}

// lockedBy returns the files that a process has locked; nil where that can't be told.
func lockedBy(pid int) map[FileID]bool {
	if _, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fdinfo"); err != nil || !procIsOurs() {
		return nil
	}
	files := map[FileID]bool{}
	for locks := range openFiles(pid) {
		for _, l := range locks {
			if l.kind == "FLOCK" && !l.waits {
				files[l.file] = true
			}
		}
	}
	return files
}

// leavers answers HasLeft.
func leavers() func(taker int, id FileID) bool {
	var mu sync.Mutex
	looked := map[int]map[FileID]bool{}
	return func(taker int, id FileID) bool {
		mu.Lock()
		defer mu.Unlock()
		files, is := looked[taker]
		if !is {
			files = lockedBy(taker)
			looked[taker] = files
		}
		return files != nil && !files[id]
	}
}

// heirs finds the processes that have a lock which another process took, by the locked file.
func heirs() map[FileID][]Heir {
	found := map[FileID][]Heir{}
	folders, err := os.ReadDir("/proc")
	if err != nil || !procIsOurs() {
		return found
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(folder.Name())
		if err != nil {
			continue
		}
		for id, taker := range inheritedLocks(pid) {
			found[id] = append(found[id], Heir{PID: pid, Taker: taker})
		}
	}
	return found
}

// inheritedLocks returns, by the locked file, the takers of the locks that a process has from
// another one.
//
// A file is known by its name in the list and by what stat says, as some filesystems give
// other names there than to stat (btrfs, overlay). Only descriptors with a lock are asked
// about, and no server is asked (AT_STATX_DONT_SYNC): a look must not wait for a filesystem
// that hangs.
func inheritedLocks(pid int) map[FileID]int {
	takers, folder := map[FileID]int{}, "/proc/"+strconv.Itoa(pid)
	entries, _ := os.ReadDir(folder + "/fdinfo")
	for _, entry := range entries {
		info, err := os.ReadFile(folder + "/fdinfo/" + entry.Name())
		if err != nil {
			continue // closed since
		}
		for line := range strings.Lines(string(info)) {
			text, is := strings.CutPrefix(line, "lock:")
			if !is || !strings.Contains(text, "FLOCK") {
				continue
			}
			l, ok := parseLock(text)
			if !ok || l.kind != "FLOCK" || l.waits || l.pid == pid {
				continue
			}
			takers[l.file] = l.pid
			var x unix.Statx_t
			if unix.Statx(unix.AT_FDCWD, folder+"/fd/"+entry.Name(), unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &x) == nil {
				takers[FileID{Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino}] = l.pid
			}
		}
	}
	return takers
}

func inherits(id FileID) bool {
	if !procIsOurs() {
		return false
	}
	_, has := inheritedLocks(os.Getpid())[id]
	return has
}
