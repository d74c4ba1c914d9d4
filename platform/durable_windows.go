package platform

import (
	"io/fs"
	"os"
)

func keepOwner(_ *os.File, old fs.FileInfo) (fs.FileMode, error) { return old.Mode().Perm(), nil }

func syncFolder(string) error { return nil }
