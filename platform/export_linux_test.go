//go:build !portable

package platform

import "strings"

// ReadKernelLocks reads a list as ListKernelLocks does.
func ReadKernelLocks(list string) (KernelLocks, error) {
	return readKernelLocks(strings.NewReader(list))
}

// Descriptor is the number by which this process has the file open.
func (f *File) Descriptor() int { return f.fd }
