package platform

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"
)

// Identify returns the identity of the process that has a pid now. The error matches
// os.ErrProcessDone if there is none, or it has exited.
func Identify(pid int) (Process, error) {
	if pid <= 0 || pid > math.MaxInt32 {
		return Process{}, fmt.Errorf("%d is no pid", pid)
	}
	p, err := identify(pid)
	if err != nil {
		return Process{}, fmt.Errorf("pid %d: %w", pid, err)
	}
	return p, nil
}

// An Exit tells when a process has exited.
type Exit struct {
	exited chan struct{}
	stop   func()
}

// WatchExit begins to watch for the exit of a process: by a pidfd on Linux (5.3), by kqueue on
// macOS and the BSDs, by a handle on Windows, and otherwise by looking 50 times a second. The
// caller vouches for the pid as for Probe's, and calls Stop. Nothing is sent to the process.
//
// The error matches os.ErrProcessDone if the process meant has exited, and
// errors.ErrUnsupported if that can't be told here.
func WatchExit(p Process) (*Exit, error) {
	if p.PID <= 0 || p.PID > math.MaxInt32 {
		return nil, fmt.Errorf("%d is no pid", p.PID)
	}
	e := &Exit{exited: make(chan struct{})}
	stop, err := watchExit(p, func() { close(e.exited) })
	if errors.Is(err, errors.ErrUnsupported) {
		stop, err = pollExit(p, func() { close(e.exited) })
	}
	if err != nil {
		return nil, fmt.Errorf("watching pid %d: %w", p.PID, err)
	}
	e.stop = sync.OnceFunc(stop)
	return e, nil
}

// Exited is closed when the process has exited.
func (e *Exit) Exited() <-chan struct{} { return e.exited }

// Stop ends the watch. Exited may still be closed if the process was about to exit.
func (e *Exit) Stop() { e.stop() }

// pollExit looks from time to time.
func pollExit(p Process, exited func()) (stop func(), err error) {
	switch Probe(p) {
	case Gone, Replaced:
		return nil, os.ErrProcessDone
	case Uncertain:
		return nil, errors.ErrUnsupported
	}
	over := make(chan struct{})
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
			}
			if l := Probe(p); l == Gone || l == Replaced {
				exited()
				return
			}
		}
	}()
	return func() { close(over) }, nil
}
