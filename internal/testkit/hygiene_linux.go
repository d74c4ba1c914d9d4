package testkit

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// idle are the system calls in which Go's runtime has threads wait for work, or sleep.
var idle = []int{unix.SYS_FUTEX, unix.SYS_EPOLL_PWAIT, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_RESTART_SYSCALL}

// busyThreads are those that wait in the kernel for anything else, as far as /proc tells.
func busyThreads() map[string]string {
	busy := map[string]string{}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return busy
	}
	for _, e := range entries {
		text, err := os.ReadFile("/proc/self/task/" + e.Name() + "/syscall")
		if err != nil || e.Name() == strconv.Itoa(unix.Gettid()) {
			continue
		}
		number, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		if n, err := strconv.Atoi(number); err == nil && n >= 0 && !slices.Contains(idle, n) { // else it is running
			busy[e.Name()] = fmt.Sprintf("system call %d", n)
		}
	}
	return busy
}
