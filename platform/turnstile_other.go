//go:build !linux

package platform

import "errors"

func hasTurnstile() bool { return false }

func takeTurnstile(string, bool) (*Turnstile, error) { return nil, errors.ErrUnsupported }

func openTurnstile(*openFile) {}
