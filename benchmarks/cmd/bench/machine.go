//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/holdfast-go/holdfast/platform"
	"golang.org/x/sys/unix"
)

// machine says what it runs on, but not whose it is.
func machine(disk, shm string) Machine {
	m := Machine{CPU: procField("/proc/cpuinfo", "model name"), CPUs: runtime.NumCPU(), Go: runtime.Version(),
		Disk: filesystem(disk) + journal(disk), Tmpfs: filesystem(shm), Commit: commit()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) +
			" " + unix.ByteSliceToString(u.Machine[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.Memory = fmt.Sprintf("%.0f GiB", float64(info.Totalram)*float64(info.Unit)/(1<<30))
	}
	return m
}

// commit is that of the tree around the working directory, with a mark if there is more
// in it than that.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "an unknown commit"
	}
	id := strings.TrimSpace(string(out))
	if out, err := exec.Command("git", "status", "--porcelain").Output(); err != nil || len(out) > 0 {
		id += ", with changes"
	}
	return id
}

func filesystem(dir string) string {
	if dir == "" {
		return "none"
	}
	f, err := platform.FilesystemOf(dir)
	if err != nil {
		return err.Error()
	}
	return f.Kind
}

func procField(file, field string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
