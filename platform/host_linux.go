package platform

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootID has no answer in a sandbox without /proc: that is complete, too.
func bootID() (string, bool) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err == nil || errors.Is(err, fs.ErrNotExist)
}

// booted counts back by CLOCK_BOOTTIME, which goes on during suspend. A time
// namespace can shift that clock; the shift makes the boot look earlier or later
// by an amount that its maker chose.
func booted() time.Time {
	var since unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(since.Nano()))
}
