package platform

import (
	"context"
	"math"
	"os"
	"sync"
	"time"
)

// A Process names one process, so that another one which got its pid later is not taken for
// it. All fields but PID are 0 where the system doesn't tell.
type Process struct {
	PID int
	// Start is when the process started, in the unit of the system: clock ticks
	// since boot (Linux), 100 ns since 1601 (Windows). On Linux it means the same only
	// within one time namespace.
	Start uint64
	// PIDFD is the inode of the process's pidfd, which no other process has
	// had since boot. Linux 6.9.
	PIDFD uint64
	// PIDNamespace and TimeNamespace are inodes of Linux namespaces. A pid
	// means nothing outside its namespace.
	PIDNamespace, TimeNamespace uint64
}

// Self returns the identity of this process. It is found once.
func Self() Process { return self() }

var self = onceComplete(func() (Process, bool) {
	p := Process{PID: os.Getpid()}
	err := identifySelf(&p)
	return p, err == nil
})

// Liveness is what can be told of a process.
type Liveness uint8

const (
	// Uncertain: it can't be told whether there is such a process.
	Uncertain Liveness = iota
	// Exists: a process has this pid; whether it is the one meant can't be told.
	Exists
	// Alive: the process exists, and it is the one meant.
	Alive
	// Gone: no process has this pid, or the one that had it has exited.
	Gone
	// Replaced: another process has this pid now.
	Replaced
)

// Probe tells whether a process is alive, and is the one meant. The caller vouches that p.PID
// is a pid of this boot and of this pid namespace. Nothing is sent to the process.
//
// A zombie whose threads have all exited is Gone; one with threads that still run (and so may
// hold locks) is not. A process that may not be signalled is alive.
//
// On macOS and the BSDs it is what kill(2) says of the pid: Gone, Exists (a zombie, too) or
// Uncertain, but neither Alive nor Replaced. Their tables of processes would tell more, in
// layouts of their own, which nobody has tried; and the kernel lock is proof enough. On all
// systems but these, Linux and Windows, it is Uncertain.
func Probe(p Process) Liveness {
	// To the system, 0 and negative pids name groups. Of larger ones it may look at the lower 32
	// bits only.
	if p.PID <= 0 || p.PID > math.MaxInt32 {
		return Uncertain
	}
	return probe(p)
}

// Began returns when the process that has a pid now began, by the clock of now; false where
// that can't be told. A clock that was set since moves it by as much.
func Began(pid int) (time.Time, bool) {
	if pid <= 0 || pid > math.MaxInt32 {
		return time.Time{}, false
	}
	return began(pid)
}

// ProgramOf returns the name of the program that a process runs; "" where that can't be seen.
// It leaves out the folder, and the arguments, which may not be for others.
func ProgramOf(pid int) string { return programOf(pid) }

// Stopped reports whether a process is stopped for now, by a signal (SIGSTOP, SIGTSTP) or a
// debugger. False where that can't be told.
func Stopped(pid int) bool { return stopped(pid) }

// AwaitExit waits until the process is gone, ctx is done, or the limit has passed, and returns
// the last answer of Probe. A killed process lets go of its files a little before it is gone.
// One that is on its way out, however long that takes it, does no work any more, and counts as
// gone.
func AwaitExit(ctx context.Context, p Process, limit time.Duration) Liveness {
	const step = 10 * time.Millisecond // how long nobody looks at ctx, and for the way out
	deadline := time.Now().Add(limit)
	for {
		l := Probe(p)
		if l == Alive && exiting(p.PID) {
			return Gone
		}
		left := time.Until(deadline)
		if l != Alive || ctx.Err() != nil || left <= 0 {
			return l
		}
		sleepUntilExit(p.PID, min(left, step))
	}
}

// A Host identifies the running kernel. What is not available is the zero value.
type Host struct {
	// Name is the host's name: for people, and a weak sign of identity. A
	// container has its own.
	Name string
	// BootID differs between any two boots of any two machines. Linux, macOS, and
	// FreeBSD have one. The time of boot is no substitute: the BSDs move it when the
	// clock is stepped.
	BootID string
}

// ThisHost returns the identity of the host. It is found once.
func ThisHost() Host { return thisHost() }

var thisHost = onceComplete(func() (Host, bool) {
	name, err := os.Hostname()
	id, found := bootID()
	return Host{Name: name, BootID: id}, err == nil && found
})

// onceComplete returns find's answer, and calls find again only until the answer is complete.
// What could not be read while, say, the process had no descriptors left must not be unknown
// for good.
func onceComplete[T any](find func() (answer T, complete bool)) func() T {
	var (
		mu     sync.Mutex
		known  bool
		answer T
	)
	return func() T {
		mu.Lock()
		defer mu.Unlock()
		if !known {
			answer, known = find()
		}
		return answer
	}
}
