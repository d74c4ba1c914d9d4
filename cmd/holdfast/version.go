package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version prints which holdfast this is, as the Go tool recorded it.
func (a *app) version(args []string) int {
	flags := newFlags("version")
	if code, ok := a.parse(flags, args); !ok {
		return code
	}
	if flags.NArg() > 0 {
		return a.misuse("version", "no arguments are wanted")
	}
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	fmt.Fprintf(a.stdout, "holdfast %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}
