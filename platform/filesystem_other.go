//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package platform

func filesystemKind(string) (string, error) { return "", nil }
