package platform

import "golang.org/x/sys/unix"

// filesystemKind does not have the filesystem bring its figures up to date, as an
// unreachable server would not answer. The name is the kernel's own.
func filesystemKind(path string) (string, error) {
	var st unix.Statvfs_t
	err := unix.Statvfs1(path, &st, unix.ST_NOWAIT)
	return unix.ByteSliceToString(st.Fstypename[:]), err
}
