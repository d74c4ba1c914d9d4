//go:build !(linux || freebsd)

package command

import "syscall"

// dieWithUs can do nothing here: these systems have no signal for the death of a
// parent. A command whose holdfast is killed with SIGKILL goes on, without the
// lock, beside the next holder; its fence is then the older one.
// Watching for the parent's death would take a process in between, which can be
// killed in turn. (Windows could do it with a job object; package syscall has no
// call for those.)
func dieWithUs() *syscall.SysProcAttr { return nil }

const diesWithUs = false
