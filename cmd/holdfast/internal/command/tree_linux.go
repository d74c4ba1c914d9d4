package command

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// newTree has this process become the parent of all orphans among its descendants.
func newTree(grace time.Duration) (*tree, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil { // of Linux 3.4
		return nil, os.NewSyscallError("prctl", err)
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.New("/proc does not show this process")
	}
	// A process that replaces itself by us (a shell's exec) leaves us its children.
	if others := descendants(); len(others) > 0 {
		return nil, fmt.Errorf("this process has children already, such as pid %d, and would end them too", others[0].pid)
	}
	t := &tree{grace: grace, died: make(chan os.Signal, 1)}
	signal.Notify(t.died, syscall.SIGCHLD)
	return t, nil
}

// descendant is a process below this one.
type descendant struct {
	pid   int
	child bool // of ours
	ended bool // and not buried yet
}

// descendants finds the processes below this one by their parents, as /proc tells.
func descendants() (all []descendant) {
	children := map[int][]descendant{}
	folders, _ := os.ReadDir("/proc")
	for _, folder := range folders {
		pid, err := strconv.Atoi(folder.Name())
		if err != nil {
			continue
		}
		if parent, ended, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], descendant{pid: pid, ended: ended, child: parent == os.Getpid()})
		}
	}
	all = append(all, children[os.Getpid()]...)
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].pid]...)
	}
	return all
}

// parentOf reads /proc/PID/stat: "pid (name) state ppid ...", where the name may hold
// anything. A process whose first thread has ended shows Z as well, but has more threads.
func parentOf(pid int) (parent int, ended, ok bool) {
	fields := stat(pid)
	if len(fields) < 18 {
		return 0, false, false
	}
	const state, ppid, threads = 0, 1, 17
	parent, err := strconv.Atoi(fields[ppid])
	return parent, fields[state] == "Z" && fields[threads] <= "1" || fields[state] == "X", err == nil
}

// endDescendant signals a process, if it is still a descendant, and reports whether it is.
// Once its parent has buried it, its pid can be another process's. So the process is first
// held (by a pidfd, where there are any), and then looked at.
func endDescendant(pid int, kill bool) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	if !isBelow(os.Getpid(), pid, parentOf) {
		return false
	}
	if kill {
		_ = p.Kill()
		return true
	}
	_ = p.Signal(syscall.SIGTERM)
	_ = p.Signal(syscall.SIGCONT) // what is stopped can't end
	return true
}

// isBelow climbs from a process to this one. If a process on the way has ended, and is not
// there any more, all below it have another parent by then: so it climbs anew. (One that is
// never there is hidden.)
func isBelow(self, pid int, parentOf func(pid int) (parent int, ended, ok bool)) bool {
	ancestor := pid
	for anew := 0; anew < 100; {
		switch parent, _, ok := parentOf(ancestor); {
		case ok && parent == self:
			return true
		case ok && parent > 1:
			ancestor = parent
		case (!ok || parent == 0) && ancestor != pid: // which shows 0 while it is buried
			ancestor = pid
			anew++
		default:
			return false
		}
	}
	return false
}

// bury has the kernel forget a child that has ended.
func bury(pid int) { _, _ = syscall.Wait4(pid, nil, syscall.WNOHANG|syscall.WALL, nil) }

// haveChildren buries all children that have ended, and reports whether there are others. If
// not, we have no descendant: a process that loses its parent becomes our child. It is for when
// the command has been waited for.
func haveChildren() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG|syscall.WALL, nil)
		if pid <= 0 && err != syscall.EINTR {
			return err == nil
		}
	}
}
