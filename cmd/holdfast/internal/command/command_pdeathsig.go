//go:build linux || freebsd

package command

import "syscall"

// dieWithUs has the kernel kill the command when holdfast dies, however that
// happens: the lock is free then, and nobody may go on working under it.
//
// On Linux the signal is sent when the *thread* that forked exits, so that thread
// must outlive the command: see launch. On FreeBSD it is the process.
//
// Between fork and prctl(PR_SET_PDEATHSIG) (FreeBSD: procctl) the child has no such signal
// yet. If holdfast dies in between, package syscall notices in the child. It looks at its
// parent's pid after the call: if that has changed, it kills itself before it becomes the
// command.
//
// fork does not pass the signal on, and the kernel forgets it when the child executes a
// set-user-ID or set-group-ID program, or one with file capabilities.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

const diesWithUs = true
