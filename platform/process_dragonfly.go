package platform

import "golang.org/x/sys/unix"

// kinfoProc is the beginning of struct kinfo_proc, from sys/kinfo.h.
type kinfoProc struct {
	_      uintptr // kp_paddr
	_      int32   // kp_flags
	status uint32
	_      [3]int32     // kp_lock to kp_traceflag
	_      uintptr      // kp_fd
	_      [3][4]uint32 // kp_siglist to kp_sigcatch
	_      int32        // kp_sigflag
	start  unix.Timeval
	_      [17]byte   // kp_comm
	_      uint32     // kp_uid
	_      int16      // kp_ngroups
	_      [16]uint32 // kp_groups
	_      [4]uint32  // kp_ruid to kp_svgid
	pid    int32
}

// parseKinfoProc has no version or size to check the layout by; that the pid lies
// beyond all that is used must do. The start is the time of day at the fork, kept
// as it was then. Source: kern_fork.c fork1; sys/proc_common.h SZOMB.
func parseKinfoProc(buf []byte, pid int) kinfo {
	const zombie = 4
	k, ok := decode[kinfoProc](buf)
	if !ok || int(k.pid) != pid {
		return kinfo{}
	}
	return kinfo{start: micros(k.start.Sec, k.start.Usec), zombie: k.status == zombie}
}

func processInfo(pid int) kinfo {
	buf, err := unix.SysctlRaw("kern.proc.pid", pid)
	if err != nil {
		return kinfo{}
	}
	return parseKinfoProc(buf, pid)
}
