//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package platform

import (
	"encoding/hex"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

func identifySelf(*Process) error { return nil }

// probe asks by kill(2) with signal 0, which sends nothing. A process that may not be
// signalled is EPERM. But FreeBSD answers ESRCH, too, for a process that the asker may not
// see, being in a jail or by policy. Source: kern_prot.c cr_cansignal; security(7).
func probe(p Process) Liveness {
	switch err := unix.Kill(p.PID, 0); {
	case err == nil, err == unix.EPERM:
		return Exists
	case err == unix.ESRCH && runtime.GOOS != "freebsd":
		return Gone
	}
	return Uncertain
}

func began(int) (time.Time, bool) { return time.Time{}, false }

func exiting(int) bool { return false }

func sleepUntilExit(int, time.Duration) { time.Sleep(time.Millisecond) }

func programOf(int) string { return "" }

func stopped(int) bool { return false }

// bootID is a random UUID on macOS, and 16 random bytes on FreeBSD: older kernels have none,
// and newer ones have it only once they have gathered entropy. All jails of a machine have
// the same. Source: sys/kern/kern_mib.c sysctl_bootid.
func bootID() (string, bool) {
	if id, err := unix.Sysctl("kern.bootsessionuuid"); err == nil {
		return id, true
	}
	id, err := unix.SysctlRaw("kern.boot_id")
	if err != nil || len(id) != 16 {
		return "", true
	}
	return hex.EncodeToString(id), true
}
