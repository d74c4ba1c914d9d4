package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version prints which holdfast this is, as the Go tool recorded it.
func (a *app) version(args []string) int {
	flags := newFlags("version")
	asJSON := flags.Bool("json", false, "")
	if code, ok := a.parse(flags, args); !ok {
		return code
	}
	if flags.NArg() > 0 {
		return a.misuse("version", "no arguments are wanted")
	}
	v := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{"(unknown)", runtime.Version(), runtime.GOOS, runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	if *asJSON {
		return a.print(v)
	}
	fmt.Fprintf(a.stdout, "holdfast %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch)
	return exitOK
}
