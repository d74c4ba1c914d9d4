//go:build !portable

package platform

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	ownLocks     = true
	closeUnlocks = true // though unlocking has failed
)

func (d *descriptor) lock(_ string, mode Mode, wait bool) error {
	how := unix.LOCK_EX
	if mode == Shared {
		how = unix.LOCK_SH
	}
	if !wait {
		how |= unix.LOCK_NB
	}
	err := again(func() error { return unix.Flock(d.fd, how) })
	if err == unix.EWOULDBLOCK {
		return ErrBusy
	}
	return err
}

func (d *descriptor) unlock() error {
	return again(func() error { return unix.Flock(d.fd, unix.LOCK_UN) })
}

// hasTurnstile asks once, of a file that is always there.
var hasTurnstile = sync.OnceValue(func() bool {
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &unix.Flock_t{Type: unix.F_WRLCK}) == nil
})

const turnstileByte = 1

func (d *descriptor) lockByte1(wait bool) error {
	cmd := unix.F_OFD_SETLK
	if wait {
		cmd = unix.F_OFD_SETLKW
	}
	err := d.byteLock(cmd, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: turnstileByte, Len: 1})
	if err == unix.EAGAIN || err == unix.EACCES {
		return ErrBusy
	}
	return err
}

// unlockBytes can't fail in a way that keeps a lock. It unlocks byte 1 and all behind.
func (d *descriptor) unlockBytes() {
	_ = d.byteLock(unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart, Start: turnstileByte})
}

// byteLocked: a length of 0 means the whole file.
func (d *descriptor) byteLocked(start, length int64) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: start, Len: length}
	err := d.byteLock(unix.F_OFD_GETLK, &l)
	return l.Type != unix.F_UNLCK, err
}

func (d *descriptor) byteLock(cmd int, l *unix.Flock_t) error {
	return again(func() error { return unix.FcntlFlock(uintptr(d.fd), cmd, l) })
}

// sayWaiting locks, for reading, the byte at the offset that is the time in Unix nanoseconds.
// The list shows that lock to everybody. It is in nobody's way, and goes when its open file
// does.
func (d *descriptor) sayWaiting(since time.Time) {
	_ = d.byteLock(unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: since.UnixNano(), Len: 1})
}

// waiting is what the list tells of the waiters for one file.
type waiting struct {
	pids    []int       // of the waiters for its flock(2), 0 if it is not known
	turning int         // how many wait at the turnstile
	said    []time.Time // since when, as far as waiters have said so
}

// A listedLock is one line of the list:
//
//	1: FLOCK  ADVISORY  WRITE 1234 fd:00:131090 0 EOF
//	1: -> FLOCK  ADVISORY  WRITE 1235 fd:00:131090 0 EOF
//	2: -> OFDLCK ADVISORY  WRITE -1 fd:00:131090 1 1
//
// where the arrow marks a waiter's. A lock of an open file has no pid. Source:
// proc_pid_locks(5), fs/locks.c lock_get_status.
type listedLock struct {
	waits bool
	kind  string
	write bool
	pid   int // 0: it is not known
	file  FileID
	start int64
}

func parseLock(line string) (l listedLock, ok bool) {
	field := strings.Fields(line)
	if l.waits = len(field) > 1 && field[1] == "->"; l.waits {
		field = field[1:]
	}
	if len(field) < 7 {
		return l, false
	}
	l.kind, l.write = field[1], field[3] == "WRITE"
	pid, _ := strconv.Atoi(field[4])
	l.pid = max(0, pid)
	major, rest, _ := strings.Cut(field[5], ":") // in hexadecimal, as is the minor number
	minor, ino, _ := strings.Cut(rest, ":")
	maj, err1 := strconv.ParseUint(major, 16, 32)
	min, err2 := strconv.ParseUint(minor, 16, 32)
	n, err3 := strconv.ParseUint(ino, 10, 64)
	l.file = FileID{Dev: unix.Mkdev(uint32(maj), uint32(min)), Ino: n}
	var err4 error
	l.start, err4 = strconv.ParseInt(field[6], 10, 64)
	return l, errors.Join(err1, err2, err3, err4) == nil
}

// listKernelLocks reads the list. The kernel gives it in pieces of a page, and goes on by
// number. So a lock that is taken in between, at the list's head, makes the kernel give
// another twice, with all its waiters. Of a lock that only one can have, the last one given
// counts.
func listKernelLocks() (KernelLocks, error) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return KernelLocks{}, err
	}
	defer f.Close()
	return readKernelLocks(f)
}

func readKernelLocks(list io.Reader) (KernelLocks, error) {
	holders, files := map[FileID][]int{}, map[FileID]*waiting{}
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		l, ok := parseLock(lines.Text())
		if !ok || l.kind != "FLOCK" && l.kind != "OFDLCK" {
			continue
		}
		of := files[l.file]
		if of == nil {
			of = &waiting{}
			files[l.file] = of
		}
		switch flock := l.kind == "FLOCK"; {
		case flock && l.waits && l.pid != 0 && slices.Contains(of.pids, l.pid): // behind a reader
		case flock && l.waits:
			of.pids = append(of.pids, l.pid)
		case flock && l.write:
			holders[l.file], of.pids = []int{l.pid}, nil
		case flock:
			holders[l.file] = append(holders[l.file], l.pid)
		case l.waits:
			of.turning++
		case l.write && l.start == turnstileByte:
			of.turning = 0
		case l.start >= earliestWord && !slices.ContainsFunc(of.said, time.Unix(0, l.start).Equal):
			of.said = append(of.said, time.Unix(0, l.start))
		}
	}
	anyWait := false
	for _, of := range files {
		anyWait = anyWait || len(of.pids)+of.turning > 0
	}
	who := sync.OnceValue(whoSaid)
	waiters := func(id FileID) []Waiter {
		of := files[id]
		if of == nil || len(of.pids)+of.turning == 0 {
			return nil
		}
		return of.waiters(who()[id])
	}
	inherited := sync.OnceValue(heirs)
	return KernelLocks{
		holders: holders, anyWait: anyWait, waiters: waiters,
		heirs: func(id FileID) []Heir { return inherited()[id] }, hasLeft: leavers(),
	}, lines.Err()
}

// whoSaid finds the processes that have said since when they wait, those at the turnstile
// among them, as far as this process may look at them.
func whoSaid() map[FileID][]Waiter {
	said := map[FileID][]Waiter{}
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return said
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(folder.Name())
		if err != nil {
			continue
		}
		for locks := range openFiles(pid) {
			for _, l := range locks {
				if l.kind == "OFDLCK" && l.start >= earliestWord {
					said[l.file] = append(said[l.file], Waiter{PID: pid, Since: time.Unix(0, l.start)})
				}
			}
		}
	}
	return said
}

// waiters puts together the list, which has pids only for waiters at the lock itself, and the
// word of the waiters found. Some waiters have said since when, and may not be looked at.
func (w *waiting) waiters(found []Waiter) []Waiter {
	byTime := func(a, b Waiter) int { return a.Since.Compare(b.Since) }
	found = slices.SortedFunc(slices.Values(found), byTime)
	var all []Waiter
	for _, pid := range w.pids {
		i := slices.IndexFunc(found, func(f Waiter) bool { return f.PID == pid })
		if i < 0 {
			all = append(all, Waiter{PID: pid})
			continue
		}
		all = append(all, found[i])
		found = slices.Delete(found, i, i+1)
	}
	behind := found[:min(w.turning, len(found))]
	for _, since := range w.said {
		is := func(f Waiter) bool { return f.Since.Equal(since) }
		if len(behind) < w.turning && !slices.ContainsFunc(all, is) && !slices.ContainsFunc(behind, is) {
			behind = append(behind, Waiter{Since: since})
		}
	}
	slices.SortFunc(behind, byTime)
	for len(behind) < w.turning {
		behind = append(behind, Waiter{})
	}
	return append(all, behind...)
}

// openFiles yields the locks of each open file of a process, as far as this one may look:
//
//	lock:	1: FLOCK  ADVISORY  WRITE 1234 fd:00:131090 0 EOF
//
// Source: proc_pid_fdinfo(5), fs/proc/fd.c seq_show, fs/locks.c show_fd_locks.
func openFiles(pid int) iter.Seq[[]listedLock] {
	return func(yield func([]listedLock) bool) {
		folder := "/proc/" + strconv.Itoa(pid) + "/fdinfo/"
		entries, err := os.ReadDir(folder)
		if err != nil {
			return
		}
		for _, entry := range entries {
			info, err := os.ReadFile(folder + entry.Name())
			if err != nil {
				continue // closed since
			}
			if !yield(parseFDInfo(string(info))) {
				return
			}
		}
	}
}

func parseFDInfo(info string) (locks []listedLock) {
	for line := range strings.Lines(info) {
		if lock, is := strings.CutPrefix(line, "lock:"); is {
			if l, ok := parseLock(lock); ok {
				locks = append(locks, l)
			}
		}
	}
	return locks
}
