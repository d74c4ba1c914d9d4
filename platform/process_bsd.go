//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package platform

// A kinfo is what the kernel's table of processes says of one.
type kinfo struct {
	start  uint64 // microseconds; 0 is unknown
	zombie bool   // all its threads have exited and its files are closed
}

func identifySelf(p *Process) error {
	p.Start = processInfo(p.PID).start
	return nil
}

// probe looks at the table first, as a zombie may be signalled. What is not in the
// table may just be hidden from us.
func probe(p Process) Liveness {
	info := processInfo(p.PID)
	switch {
	case info.zombie:
		return Gone
	case info.start == 0 || p.Start == 0:
		return existence(p.PID)
	case info.start-p.Start+1 <= 2: // they differ by 1 at most: see sinceBoot
		return Alive
	}
	return Replaced
}

func micros(sec, usec int64) uint64 { return uint64(sec)*1e6 + uint64(usec) }
