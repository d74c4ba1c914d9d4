//go:build !linux || portable

package platform

import (
	"errors"
	"os"
)

// Package flock keeps the open file that it locks to itself. On Windows a lock belongs to the
// process that took it.
func (d *descriptor) inheritable() (*os.File, error) { return nil, errors.ErrUnsupported }

func inherits(FileID) bool { return false }

func inherited(int) *os.File { return nil }
