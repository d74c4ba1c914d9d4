//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows

package platform

// kernelLocks: these systems bind a lock to an open file.
const kernelLocks = true
