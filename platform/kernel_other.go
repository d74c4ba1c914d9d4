//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package platform

import "errors"

// kernelLocks is false where there are no file locks (Plan 9, js/wasm, wasip1),
// and on AIX and Solaris, whose locks belong to the process: there, closing any
// descriptor of the file, even by a library that only looked at it, drops the
// lock. Nobody's life can be staked on that.
const kernelLocks = false

type openFile struct{ path string }

func openToLock(path string, _ int) (*openFile, error) { return nil, errors.ErrUnsupported }

func (f *openFile) join() bool             { return false }
func (f *openFile) leave()                 {}
func (f *openFile) done()                  {}
func (f *openFile) lock(Mode, bool) error  { return errors.ErrUnsupported }
func (f *openFile) unlock() error          { return errors.ErrUnsupported }
func (f *openFile) is(FileID, string) bool { return false }
