package platform

import (
	"time"

	"golang.org/x/sys/unix"
)

func identifySelf(p *Process) error {
	p.Start, _ = processInfo(p.PID)
	return nil
}

// probe looks at the table first, as a zombie may be signalled. What is not in the
// table may just be hidden from us.
func probe(p Process) Liveness {
	start, zombie := processInfo(p.PID)
	switch {
	case zombie:
		return Gone
	case start == 0 || p.Start == 0:
		return existence(p.PID)
	case start == p.Start:
		return Alive
	}
	return Replaced
}

// processInfo: the start is the time of day at the fork, kept as it was then, here in
// microseconds; 0 is unknown. A zombie's threads have all exited and its files are
// closed. Source: bsd/kern/kern_fork.c microtime_with_abstime; bsd/sys/proc.h SZOMB.
func processInfo(pid int) (start uint64, zombie bool) {
	const szomb = 5
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return 0, false
	}
	at := info.Proc.P_starttime
	return uint64(at.Sec)*1e6 + uint64(at.Usec), info.Proc.P_stat == szomb
}

func began(pid int) (time.Time, bool) {
	start, _ := processInfo(pid)
	return time.UnixMicro(int64(start)), start != 0
}
