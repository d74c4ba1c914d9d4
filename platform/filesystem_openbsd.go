package platform

import "golang.org/x/sys/unix"

func filesystemKind(path string) (string, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return unix.ByteSliceToString(st.F_fstypename[:]), err
}
