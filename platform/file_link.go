//go:build !windows

package platform

import "os"

// linkNew is RenameNew in two steps: a crash in between leaves the file under both
// names.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return Remove(from)
}
