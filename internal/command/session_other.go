//go:build !unix

package command

import (
	"errors"
	"syscall"
)

// hasSessions: on Windows nobody has tried yet what a session needs, a process that outlives
// its console and a socket that is one user's alone.
const hasSessions = false

func detached() (*syscall.SysProcAttr, error) { return nil, errors.ErrUnsupported }

func ignorePipes() {}

func isOwn(string) bool { return false }

func checkOwnFolder(string) error { return errors.ErrUnsupported }
