package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Stop stops the child with SIGSTOP, and waits until it has stopped, with all its threads: one
// that waits for a lock in the kernel may still be granted that before it looks at the signal.
func (c *Child) Stop() {
	c.t.Helper()
	c.signal(syscall.SIGSTOP)
	threads := "/proc/" + strconv.Itoa(c.Cmd.Process.Pid) + "/task/*/stat"
	Eventually(c.t, "the child stops", func() bool {
		all, err := filepath.Glob(threads)
		return err == nil && len(all) > 0 && !slices.ContainsFunc(all, func(stat string) bool { return stateIn(stat) != 'T' })
	})
}

// Continue has a child that was stopped go on.
func (c *Child) Continue() {
	c.t.Helper()
	c.signal(syscall.SIGCONT)
}

func (c *Child) signal(s syscall.Signal) {
	c.t.Helper()
	Check(c.t, c.Cmd.Process.Signal(s))
}

// WithoutFirstThread is for init functions, which run on the process's first thread: it ends that
// thread. The process shows Z then, and lives for as long as role takes.
func WithoutFirstThread(role func()) {
	go func() {
		first := "/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/stat"
		for stateIn(first) != 'Z' {
			time.Sleep(time.Millisecond)
		}
		role()
		os.Exit(0)
	}()
	runtime.LockOSThread()
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // not RawSyscall: the collector would wait for it for ever
}

// State is that of a process, as proc(5) names it; 0 if there is none.
func State(pid int) byte { return stateIn("/proc/" + strconv.Itoa(pid) + "/stat") }

func stateIn(file string) byte {
	stat, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return stat[bytes.LastIndexByte(stat, ')')+2]
}
