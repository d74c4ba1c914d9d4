//go:build !linux

package pgtest

import "syscall"

func dying(a *syscall.SysProcAttr) *syscall.SysProcAttr { return a }
