package platform

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// identifySelf returns an error when something could not be read that may be readable another
// time. What this kernel or sandbox doesn't have stays 0.
func identifySelf(p *Process) error {
	p.PIDNamespace = namespace("pid")
	p.TimeNamespace = namespace("time")
	start, err := startTime("self")
	p.Start = start
	fd, perr := unix.PidfdOpen(p.PID, 0)
	if perr == nil {
		p.PIDFD = pidfdInode(fd)
		unix.Close(fd)
	}
	if perr == unix.EMFILE || perr == unix.ENFILE || perr == unix.ENOMEM {
		return perr
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// namespace returns the inode of a namespace of this process; 0 without /proc or without that
// kind of namespace (time: Linux 5.6). It asks for the thread's, as /proc/self is the first
// thread, which may have exited.
func namespace(kind string) uint64 {
	info, err := os.Stat("/proc/thread-self/ns/" + kind)
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// probe climbs down by what the kernel has:
//
//	6.9  a pidfd has an inode of its own: identity and life in one
//	5.3  pidfd_open: the proof of exit; identity by start time
//	     kill(pid, 0), and start time
//
// A sandbox may refuse any of them. What is refused proves nothing.
func probe(p Process) Liveness {
	fd, err := unix.PidfdOpen(p.PID, 0)
	switch err {
	case nil:
		defer unix.Close(fd)
	case unix.ESRCH:
		return Gone
	case unix.EINVAL, unix.ENOENT:
		// The number is a thread's now (EINVAL; ENOENT since 6.16 or so), so no process has it.
		return Gone
	default:
		return probeByNumber(p)
	}
	if exited(fd) {
		return Gone
	}
	if p.PIDFD != 0 {
		if ino := pidfdInode(fd); ino != 0 {
			return sameness(ino == p.PIDFD)
		}
	}
	l := compareStart(p)
	// Only if the process is still there is the start time that we read its own.
	if exited(fd) {
		return Gone
	}
	return l
}

func probeByNumber(p Process) Liveness {
	switch err := unix.Kill(p.PID, 0); err {
	case nil, unix.EPERM:
		return compareStart(p)
	case unix.ESRCH:
		return Gone
	}
	return Uncertain
}

// compareStart tells the process meant from a later one with its pid. It does not look at the
// state that /proc gives: a process whose first thread has gone shows Z there while its other
// threads still run.
func compareStart(p Process) Liveness {
	if p.Start == 0 || p.TimeNamespace != Self().TimeNamespace || !procIsOurs() {
		return Exists
	}
	start, err := startTime(strconv.Itoa(p.PID))
	if err != nil {
		return Exists
	}
	return sameness(start == p.Start)
}

// procIsOurs reports whether /proc numbers processes as we do. In a new pid namespace it may
// still be the old one's, and show another process at a pid.
func procIsOurs() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
}

func sameness(same bool) Liveness {
	if same {
		return Alive
	}
	return Replaced
}

// exited polls a pidfd: readable once every thread of the process has exited,
// whether or not its parent has reaped it. Source: pidfd_open(2).
func exited(pidfd int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	err := again(func() error { _, err := unix.Poll(fds, 0); return err })
	return err == nil && fds[0].Revents&unix.POLLIN != 0
}

// sleepUntilExit returns when the process has exited, after so long, or sooner: a signal ends
// it, and where there is no pidfd nothing tells.
func sleepUntilExit(pid int, d time.Duration) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		time.Sleep(time.Millisecond)
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int((d+time.Millisecond-1)/time.Millisecond))
}

// pidfdInode returns 0 before Linux 6.9, where all pidfds share one inode.
func pidfdInode(fd int) uint64 {
	if !hasPidfs(fd) {
		return 0
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// pidfsSeen spares the question once a pidfd has had an inode of its own.
var pidfsSeen atomic.Bool

func hasPidfs(pidfd int) bool {
	var fsys unix.Statfs_t
	if !pidfsSeen.Load() && unix.Fstatfs(pidfd, &fsys) == nil && fsys.Type == unix.PID_FS_MAGIC {
		pidfsSeen.Store(true)
	}
	return pidfsSeen.Load()
}

// startTime is when a process started, in clock ticks since boot.
func startTime(pid string) (uint64, error) {
	const start = 22
	fields, err := procStat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(fields[start]), 10, 64)
}

// procStat returns the fields of /proc/<pid>/stat under their numbers, but for the name, which
// is in brackets and may hold anything, brackets and spaces included. Source:
// proc_pid_stat(5).
func procStat(pid string) ([][]byte, error) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil, err
	}
	name := bytes.LastIndexByte(stat, ')')
	fields := append(make([][]byte, 3, 60), bytes.Fields(stat[name+1:])...)
	if len(fields) < 40 {
		return nil, strconv.ErrSyntax
	}
	return fields, nil
}

// began adds the start, which is counted from the boot, to the time of boot by the clock of
// now. Both are seen through this process's time namespace, which so cancels out.
func began(pid int) (time.Time, bool) {
	const ticksPerSecond = 100 // USER_HZ, on every architecture that Go knows
	var since unix.Timespec
	if !procIsOurs() || unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil {
		return time.Time{}, false
	}
	start, err := startTime(strconv.Itoa(pid))
	if err != nil {
		return time.Time{}, false
	}
	booted := time.Now().Add(-time.Duration(since.Nano()))
	return booted.Add(time.Duration(start) * (time.Second / ticksPerSecond)), true
}

// exiting reports whether every thread of a process is in do_exit (PF_EXITING): none of them
// runs the program any more. The flag of its first thread alone says little, as others may go
// on.
func exiting(pid int) bool {
	const flags, pfExiting = 9, 4 // linux/sched.h
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil || len(threads) == 0 || !procIsOurs() {
		return false
	}
	for _, thread := range threads {
		fields, err := procStat(strconv.Itoa(pid) + "/task/" + thread.Name())
		if err != nil {
			continue // gone since
		}
		if f, err := strconv.ParseUint(string(fields[flags]), 10, 64); err != nil || f&pfExiting == 0 {
			return false
		}
	}
	return true
}

func programOf(pid int) string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || !procIsOurs() {
		return ""
	}
	program, _, _ := strings.Cut(string(line), "\x00")
	// A program may write anything there, such as its arguments behind its name.
	program, _, _ = strings.Cut(program, " ")
	return path.Base(program)
}

// stopped looks at the state of the first thread: a signal stops them all.
func stopped(pid int) bool {
	const state = 3
	fields, err := procStat(strconv.Itoa(pid))
	return err == nil && procIsOurs() && bytes.ContainsAny(fields[state], "Tt")
}

// bootID has no answer in a sandbox without /proc: that is complete, too.
func bootID() (string, bool) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err == nil || errors.Is(err, fs.ErrNotExist)
}
