//go:build darwin || freebsd || netbsd

package platform

import "syscall"

// birth is 0 for a filesystem that keeps none: the kernels give 0 or -1 seconds
// then (UFS1; vattr_null in FreeBSD and NetBSD).
//
// A file's modification time must not be set back: FreeBSD takes the birth along
// when it would be later (vfs_syscalls.c setutimes).
func birth(st *syscall.Stat_t) int64 {
	if st.Birthtimespec.Sec <= 0 {
		return 0
	}
	return st.Birthtimespec.Nano()
}
