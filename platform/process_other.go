//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package platform

import "time"

func identifySelf(*Process) error { return nil }

// probe: WebAssembly knows no other processes. Plan 9 lists them in /proc, but a
// program's namespace may have another machine's mounted there. Solaris's zones, whose
// processes don't see those of other zones, are pid namespaces that have no number in
// Process; so are AIX's WPARs.
func probe(Process) Liveness { return Uncertain }

func began(int) (time.Time, bool) { return time.Time{}, false }

func exiting(int) bool { return false }

func sleepUntilExit(int, time.Duration) { time.Sleep(time.Millisecond) }

func programOf(int) string { return "" }

func stopped(int) bool { return false }

func bootID() (string, bool) { return "", true }
