//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package platform

// kernelLocks is false where there are no file locks (Plan 9, js/wasm, wasip1),
// and on AIX and Solaris, whose locks belong to the process: there, closing any
// descriptor of the file, even by a library that only looked at it, drops the
// lock. Nobody's life can be staked on that.
const kernelLocks = false
