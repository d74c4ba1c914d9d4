//go:build dragonfly || freebsd || netbsd || openbsd

package platform

import "unsafe"

// decode copies the beginning of buf into a structure without pointers, whose
// layout in Go is that of C.
func decode[T any](buf []byte) (v T, ok bool) {
	size := int(unsafe.Sizeof(v))
	if len(buf) < size {
		return v, false
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), size), buf)
	return v, true
}
