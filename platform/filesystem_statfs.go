//go:build darwin || dragonfly || freebsd

package platform

import "golang.org/x/sys/unix"

func typeName(path string) (string, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return unix.ByteSliceToString(st.Fstypename[:]), err
}
