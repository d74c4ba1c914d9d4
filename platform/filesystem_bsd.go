//go:build darwin || dragonfly || freebsd

package platform

import "golang.org/x/sys/unix"

// filesystemKind gives the name that the kernel itself uses: "apfs", "ufs", "zfs",
// "hammer2", "nfs", "nullfs". (OpenBSD and NetBSD keep it in structures of their own.)
func filesystemKind(path string) (string, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return unix.ByteSliceToString(st.Fstypename[:]), err
}
