//go:build !unix

package platform

import (
	"io/fs"
	"os"
)

func keepOwner(*os.File, fs.FileInfo) (bool, error) { return true, nil }

func syncFolder(string) error { return nil }
