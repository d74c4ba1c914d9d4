//go:build aix || dragonfly || freebsd || netbsd || openbsd || solaris

package platform

import "time"

func identifySelf(*Process) error { return nil }

// probe can't tell the process meant from a later one with its pid, nor a zombie from
// a process that runs. The kernel lock is the proof here.
func probe(p Process) Liveness { return existence(p.PID) }

func began(int) (time.Time, bool) { return time.Time{}, false }
