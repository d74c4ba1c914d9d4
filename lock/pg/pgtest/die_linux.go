package pgtest

import "syscall"

// dying has the server end when this process does, however that ends.
func dying(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	if a == nil {
		a = &syscall.SysProcAttr{}
	}
	a.Pdeathsig = syscall.SIGINT
	return a
}
