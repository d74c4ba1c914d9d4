package platform

import "golang.org/x/sys/unix"

// processInfo: the start is the time of day at the fork, kept as it was then.
// Source: bsd/kern/kern_fork.c microtime_with_abstime; bsd/sys/proc.h SZOMB.
func processInfo(pid int) kinfo {
	const zombie = 5
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return kinfo{}
	}
	start := info.Proc.P_starttime
	return kinfo{start: micros(start.Sec, int64(start.Usec)), zombie: info.Proc.P_stat == zombie}
}
