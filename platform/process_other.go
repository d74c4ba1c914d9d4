//go:build js || plan9 || wasip1

package platform

import "time"

func identifySelf(*Process) error { return nil }

// probe: WebAssembly knows no other processes. Plan 9 lists them in /proc, but a
// program's namespace may have another machine's mounted there.
func probe(Process) Liveness { return Uncertain }

func began(int) (time.Time, bool) { return time.Time{}, false }

func exiting(int) bool { return false }

func programOf(int) string { return "" }
