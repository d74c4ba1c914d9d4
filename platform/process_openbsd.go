package platform

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// kinfoProc is the beginning of struct kinfo_proc, from sys/sysctl.h. New members
// are only ever added at its end.
type kinfoProc struct {
	_         [12]uint64 // p_forw to p_ru
	_         [3]int32   // p_eflag to p_flag
	pid       int32
	_         [4]int32   // p_ppid to p_tpgid
	_         [4]uint32  // p_uid to p_rgid
	_         [16]uint32 // p_groups
	_         [2]int16   // p_ngroups, p_jobc
	_         [9]uint32  // p_tdev to p_schedflags
	_         [4]uint64  // p_uticks to p_tracep
	_         [2]int32   // p_traceflag, p_holdcnt
	_         [4]uint32  // p_siglist to p_sigcatch
	_         [4]uint8   // p_stat to p_nice
	_         [2]uint16  // p_xstat, p_spare
	_         [32]byte   // p_comm, p_wmesg
	_         uint64     // p_wchan
	_         [32]byte   // p_login
	_         [4]int32   // p_vm_rssize to p_vm_ssize
	valid     int64      // of what follows; 0 for a zombie
	startSec  uint64
	startUsec uint32
	_         uint32 // p_uutime_sec
}

// parseKinfoProc returns a process's start in microseconds since 1970.
func parseKinfoProc(buf []byte, pid int) (uint64, bool) {
	k, ok := decode[kinfoProc](buf)
	if !ok || int(k.pid) != pid || k.valid != 1 || k.startUsec >= 1e6 {
		return 0, false
	}
	return micros(int64(k.startSec), int64(k.startUsec)), true
}

// processInfo asks for as much of the structure as it needs, which the kernel
// allows. It reports no zombies: kill(2) does not find them, and exit1 takes a
// process out of its sight after it has closed the files.
//
// The kernel kills a program that has pledged, but not "ps" and "proc", for asking.
//
// Source: kern_sysctl.c sysctl_doproc; kern_exit.c exit1; pledge(2).
func processInfo(pid int) kinfo {
	const byPID = 1 // KERN_PROC_PID
	boot := bootMicros()
	buf, err := unix.SysctlRaw("kern.proc", byPID, pid, int(unsafe.Sizeof(kinfoProc{})), 1)
	if err != nil {
		return kinfo{}
	}
	start, ok := parseKinfoProc(buf, pid)
	if !ok {
		return kinfo{}
	}
	return kinfo{start: sinceBoot(start, boot)}
}
