//go:build !(unix || windows)

package command

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func checkSessions() error {
	return fmt.Errorf("sessions can't be had on this system: %w", errors.ErrUnsupported)
}

func releaseRequests() chan os.Signal { return nil }

func openRequests(string, chan<- os.Signal) error { return errors.ErrUnsupported }

func requestRelease(*os.Process, string) error { return errors.ErrUnsupported }

func detached() (*syscall.SysProcAttr, error) { return nil, errors.ErrUnsupported }

func ignorePipes() {}

func outputIsClosed() bool { return false }
