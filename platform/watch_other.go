//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package platform

import (
	"errors"
	"os"
)

func identify(pid int) (Process, error) {
	p := Process{PID: pid}
	if Probe(p) == Gone {
		return p, os.ErrProcessDone
	}
	return p, nil
}

func watchExit(Process, func()) (stop func(), err error) { return nil, errors.ErrUnsupported }
