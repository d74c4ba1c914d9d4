package platform

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// kinfoProc is the beginning of struct kinfo_proc2, from sys/sysctl.h. New members
// are only ever added at its end.
type kinfoProc struct {
	_         [13]uint64 // p_forw to p_ru
	_         [3]int32   // p_eflag to p_flag
	pid       int32
	_         [4]int32     // p_ppid to p_tpgid
	_         [4]uint32    // p_uid to p_rgid
	_         [16]uint32   // p_groups
	_         [2]int16     // p_ngroups, p_jobc
	_         [9]uint32    // p_tdev to p_schedflags
	_         [4]uint64    // p_uticks to p_tracep
	_         [2]int32     // p_traceflag, p_holdcnt
	_         [4][4]uint32 // p_siglist to p_sigcatch
	_         [4]uint8     // p_stat to p_nice
	_         [2]uint16    // p_xstat, p_acflag
	_         [32]byte     // p_comm, p_wmesg
	_         uint64       // p_wchan
	_         [24]byte     // p_login
	_         [4]int32     // p_vm_rssize to p_vm_ssize
	valid     int64        // of the times; 0 while the process execs or exits
	startSec  uint32
	startUsec uint32
	_         [4]uint32  // p_uutime_sec to p_ustime_usec
	_         [14]uint64 // p_uru_maxrss to p_uru_nivcsw
	_         [2]uint32  // p_uctime_sec, p_uctime_usec
	_         [4]uint64  // p_cpuid to p_nrlwps
	status    uint64     // p_realstat: of the process, not of a thread
}

// parseKinfoProc: a process is SDEAD, then SZOMB, once it has closed its files;
// SDYING is earlier. The start is the time of day at the fork, kept as it was
// then. Source: sys/proc.h; kern_exit.c exit1; kern_proc.c fill_kproc2.
func parseKinfoProc(buf []byte, pid int) kinfo {
	const zombie, dead = 5, 6
	k, ok := decode[kinfoProc](buf)
	if !ok || int(k.pid) != pid {
		return kinfo{}
	}
	info := kinfo{zombie: k.status == zombie || k.status == dead}
	if k.valid == 1 {
		info.start = micros(int64(k.startSec), int64(k.startUsec))
	}
	return info
}

// processInfo asks for as much of the structure as it needs, which the kernel
// allows. Source: kern_proc.c sysctl_doeproc.
func processInfo(pid int) kinfo {
	const byPID = 1 // KERN_PROC_PID
	buf, err := unix.SysctlRaw("kern.proc2", byPID, pid, int(unsafe.Sizeof(kinfoProc{})), 1)
	if err != nil {
		return kinfo{}
	}
	return parseKinfoProc(buf, pid)
}
