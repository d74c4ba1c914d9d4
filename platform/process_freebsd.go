package platform

import (
	"os"

	"golang.org/x/sys/unix"
)

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
