package platform

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/windows"
)

// identify: a handle keeps the pid from being given to another process.
func identify(pid int) (Process, error) {
	p := Process{PID: pid}
	h, err := openProcess(pid)
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			err = nil // another user's
		}
		return p, err
	}
	defer windows.CloseHandle(h)
	p.Start = creationTime(h)
	return p, nil
}

// openProcess opens a process, to wait for its exit. The error is os.ErrProcessDone if no
// process has that pid, or it has exited, and errors.ErrUnsupported if it may not be opened.
func openProcess(pid int) (windows.Handle, error) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(pid))
	switch err {
	case nil:
	case windows.ERROR_INVALID_PARAMETER:
		return 0, os.ErrProcessDone
	default:
		return 0, errors.ErrUnsupported
	}
	// OpenProcess takes the pid for a multiple of four, and so another one for its neighbour.
	if id, err := windows.GetProcessId(h); err == nil && int(id) != pid || hasExited(h) {
		windows.CloseHandle(h)
		return 0, os.ErrProcessDone
	}
	return h, nil
}

func hasExited(h windows.Handle) bool {
	event, err := windows.WaitForSingleObject(h, 0)
	return err == nil && event == windows.WAIT_OBJECT_0
}

// watchExit waits for an event that ends the watch, and for the process's handle. That is of
// this very process, whatever becomes of its pid. Source: WaitForMultipleObjects.
func watchExit(p Process, gone func()) (stop func(), err error) {
	h, err := openProcess(p.PID)
	if err != nil {
		return nil, err
	}
	if start := creationTime(h); start != 0 && p.Start != 0 && start != p.Start {
		windows.CloseHandle(h)
		return nil, os.ErrProcessDone // another one has the pid now
	}
	over, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		windows.CloseHandle(h)
		return nil, os.NewSyscallError("CreateEvent", err)
	}
	var mu sync.Mutex
	open := true // over is
	go func() {
		event, err := windows.WaitForMultipleObjects([]windows.Handle{h, over}, false, windows.INFINITE)
		windows.CloseHandle(h)
		mu.Lock()
		windows.CloseHandle(over)
		open = false
		mu.Unlock()
		if err == nil && event == windows.WAIT_OBJECT_0 {
			gone()
		}
	}()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if open {
			_ = windows.SetEvent(over)
		}
	}, nil
}
