package platform

import (
	"time"

	"golang.org/x/sys/windows"
)

// booted counts back by GetTickCount64, which goes on during sleep.
func booted() time.Time { return time.Now().Add(-windows.DurationSinceBoot()) }
