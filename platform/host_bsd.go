//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package platform

import (
	"time"

	"golang.org/x/sys/unix"
)

// booted: the kernel moves kern.boottime along when the clock is stepped. Only
// its seconds are read, as what follows them is in microseconds on some of these
// systems and in nanoseconds on others (DragonFly, NetBSD).
func booted() time.Time {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil || boot.Sec == 0 {
		return time.Time{}
	}
	return time.Unix(int64(boot.Sec), 0)
}
