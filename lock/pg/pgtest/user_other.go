//go:build !unix

package pgtest

import "syscall"

// Unprivileged is nothing here.
func Unprivileged() *syscall.SysProcAttr { return nil }

func giveAway(string) error { return nil }
