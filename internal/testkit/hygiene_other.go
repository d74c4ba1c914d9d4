//go:build !linux

package testkit

// busyThreads are not known: there is no /proc that tells.
func busyThreads() map[string]string { return nil }
