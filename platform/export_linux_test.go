//go:build !portable

package platform

import "strings"

// ReadKernelLocks reads a list as ListKernelLocks does.
func ReadKernelLocks(list string) (KernelLocks, error) {
	return readKernelLocks(strings.NewReader(list))
}

// LocksIn counts the locks that the text of a descriptor's fdinfo names.
func LocksIn(info string) int {
	_, locks := parseFDInfo(info)
	return len(locks)
}
