//go:build unix && !(darwin || dragonfly || freebsd || linux || netbsd)

package command

// inForeground: the standard library has no way here to ask the terminal. A
// Ctrl-C then reaches the command twice, from the terminal and from holdfast.
func inForeground(int) bool { return false }
