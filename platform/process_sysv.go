//go:build aix || solaris

package platform

func identifySelf(*Process) error { return nil }

// probe can't tell the process meant from a later one with its pid, nor a zombie
// from a process that runs.
func probe(p Process) Liveness { return existence(p.PID) }
