package platform

import (
	"encoding/hex"

	"golang.org/x/sys/unix"
)

// bootID is 16 random bytes. Older kernels have none, and newer ones have it only
// once they have gathered entropy. All jails of a machine have the same.
// Source: sys/kern/kern_mib.c sysctl_bootid.
func bootID() (string, bool) {
	id, err := unix.SysctlRaw("kern.boot_id")
	if err != nil || len(id) != 16 {
		return "", true
	}
	return hex.EncodeToString(id), true
}
