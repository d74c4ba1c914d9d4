package platform

import (
	"time"

	"golang.org/x/sys/windows"
)

func identifySelf(p *Process) error {
	p.Start = creationTime(windows.CurrentProcess())
	return nil
}

// probe: a process is signaled last of all, after its threads have ended and its handles are
// closed. Source: Terminating a Process; OpenProcess.
func probe(p Process) Liveness {
	const access = windows.PROCESS_QUERY_LIMITED_INFORMATION | windows.SYNCHRONIZE
	h, err := windows.OpenProcess(access, false, uint32(p.PID))
	switch err {
	case nil:
		defer windows.CloseHandle(h)
	case windows.ERROR_INVALID_PARAMETER:
		return Gone
	case windows.ERROR_ACCESS_DENIED:
		return Exists
	default:
		return Uncertain
	}
	if event, err := windows.WaitForSingleObject(h, 0); err == nil && event == windows.WAIT_OBJECT_0 {
		return Gone
	}
	start := creationTime(h)
	switch {
	case start == 0 || p.Start == 0:
		return Exists
	case start == p.Start:
		return Alive
	}
	return Replaced
}

// creationTime is fixed when a process is created. It is 0 where it is not available.
func creationTime(h windows.Handle) uint64 {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(h, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	return uint64(created.HighDateTime)<<32 | uint64(created.LowDateTime)
}

func began(pid int) (time.Time, bool) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return time.Time{}, false
	}
	defer windows.CloseHandle(h)
	start := creationTime(h)
	at := windows.Filetime{LowDateTime: uint32(start), HighDateTime: uint32(start >> 32)}
	return time.Unix(0, at.Nanoseconds()), start != 0
}

func exiting(int) bool { return false }

func sleepUntilExit(int, time.Duration) { time.Sleep(time.Millisecond) }

func programOf(int) string { return "" }

func stopped(int) bool { return false }

// bootID is unknown. Windows counts boots in the registry, as BootId beside the prefetcher's
// settings. But no document of Microsoft's says when, or that a fast startup, which services
// of the session before survive, leaves it alone. And copies of one virtual machine count
// alike.
func bootID() (string, bool) { return "", true }
