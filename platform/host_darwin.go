package platform

import "golang.org/x/sys/unix"

// bootID is a random UUID of the kernel's.
func bootID() (string, bool) {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id, true
}
