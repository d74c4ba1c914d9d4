//go:build js || plan9 || wasip1

package platform

func identifySelf(*Process) error { return nil }

// probe: WebAssembly knows no other processes. Plan 9 lists them in /proc, but a
// program's namespace may have another machine's mounted there.
func probe(Process) Liveness { return Uncertain }
