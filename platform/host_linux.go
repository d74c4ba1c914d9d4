package platform

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// bootID has no answer in a sandbox without /proc: that is complete, too.
func bootID() (string, bool) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err == nil || errors.Is(err, fs.ErrNotExist)
}
