//go:build !(unix || windows)

package command

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

func checkSessions() error {
	return fmt.Errorf("sessions can't be had on this system: %w", errors.ErrUnsupported)
}

func detached() (*syscall.SysProcAttr, error) { return nil, errors.ErrUnsupported }

func ignorePipes() {}

func dialSession(string) (net.Conn, error) { return nil, errNoSession }

func listenForSession(string) (net.Listener, error) { return nil, errors.ErrUnsupported }
