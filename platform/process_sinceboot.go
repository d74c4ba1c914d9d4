//go:build freebsd || openbsd

package platform

import "golang.org/x/sys/unix"

// sinceBoot takes the time of boot off a start time that was read after it.
//
// These kernels know a process's start as uptime, and add the time of boot when
// they are asked. That moves when the clock is stepped, which would make one
// process look like two. Both are cut to microseconds (on OpenBSD after they are
// added), so that the difference may vary by 1.
//
// Source: FreeBSD kern_proc.c fill_kinfo_proc_only, kern_tc.c tc_setclock;
// OpenBSD kern_sysctl.c fill_kproc, kern_tc.c tc_setrealtimeclock.
func sinceBoot(start, boot uint64) uint64 {
	if boot == 0 || start <= boot || bootMicros() != boot {
		return 0 // the clock was stepped just now: unknown
	}
	return start - boot
}

func bootMicros() uint64 {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return 0
	}
	return micros(int64(boot.Sec), int64(boot.Usec))
}
