//go:build unix && !linux && !freebsd

package platform

// processesHidden: here a process that may not be signalled is EPERM, not ESRCH.
// Solaris zones, whose processes don't see those of other zones, are pid
// namespaces that have no number in Process; so are AIX WPARs.
func processesHidden() bool { return false }
