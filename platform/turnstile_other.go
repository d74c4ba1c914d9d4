//go:build !linux

package platform

import "errors"

func hasTurnstile() bool { return false }

func takeTurnstile(string, bool) (*Turnstile, error) { return nil, errors.ErrUnsupported }

func openTurnstile(*openFile) {}

func tryUnqueued(path string) (*KernelLock, error) { return TryKernelLock(path, Exclusive) }
