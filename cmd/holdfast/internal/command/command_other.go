//go:build !(linux || freebsd)

package command

import "syscall"

// dieWithUs can do nothing here: there is no signal for the death of a parent. A command whose
// holdfast is killed with SIGKILL goes on, without the lock; its fence is then the older one.
func dieWithUs() *syscall.SysProcAttr { return nil }

const diesWithUs = false
