package platform

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// kinfoProc is the beginning of struct kinfo_proc, from sys/user.h, with C's long,
// vm_size_t and segsz_t as uintptr.
type kinfoProc struct {
	size   int32
	_      int32
	_      [8]uintptr // ki_args to ki_wchan
	pid    int32
	_      [5]int32     // ki_ppid to ki_tsid
	_      [2]int16     // ki_jobc
	_      uint32       // ki_tdev_freebsd11
	_      [4][4]uint32 // ki_siglist to ki_sigcatch
	_      [5]uint32    // ki_uid to ki_svgid
	_      [2]int16     // ki_ngroups
	_      [16]uint32   // ki_groups
	_      [6]uintptr   // ki_size to ki_ssize
	_      [2]uint16    // ki_xstat, ki_acflag
	_      [5]uint32    // ki_pctcpu to ki_cow
	_      uint64       // ki_runtime
	start  unix.Timeval
	_      unix.Timeval // ki_childtime
	_      [2]uintptr   // ki_flag, ki_kiflag
	_      int32        // ki_traceflag
	status int8
}

// kinfoProcSize is KINFO_PROC_SIZE, from machine/proc.h of each architecture.
func kinfoProcSize(arch string) int32 {
	switch arch {
	case "386":
		return 768
	case "arm":
		return 816
	}
	return 1088
}

func parseKinfoProc(buf []byte, arch string, pid int) (kinfoProc, bool) {
	k, ok := decode[kinfoProc](buf)
	return k, ok && k.size == kinfoProcSize(arch) && int(k.size) == len(buf) && int(k.pid) == pid
}

func processInfo(pid int) kinfo {
	const zombie = 5 // SZOMB, sys/proc.h
	boot := bootMicros()
	buf, err := unix.SysctlRaw("kern.proc.pid", pid)
	if err != nil {
		return kinfo{}
	}
	k, ok := parseKinfoProc(buf, runtime.GOARCH, pid)
	if !ok {
		return kinfo{}
	}
	start := micros(int64(k.start.Sec), int64(k.start.Usec))
	return kinfo{start: sinceBoot(start, boot), zombie: k.status == zombie}
}

// processesHidden: FreeBSD answers ESRCH for a process that the asker may not see,
// being in a jail or by policy. Root outside of jails sees all, but for what a MAC
// module forbids. Source: kern_prot.c cr_cansignal; security(7).
func processesHidden() bool {
	jailed, err := unix.SysctlUint32("security.jail.jailed")
	if err != nil || jailed != 0 {
		return true
	}
	if os.Geteuid() == 0 {
		return false
	}
	for _, policy := range []string{"see_other_uids", "see_other_gids", "see_jail_proc"} {
		see, err := unix.SysctlUint32("security.bsd." + policy)
		if err == unix.ENOENT {
			continue // an older kernel without that policy
		}
		if err != nil || see == 0 {
			return true
		}
	}
	return false
}
