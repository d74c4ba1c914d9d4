//go:build unix && !linux

package platform

import (
	"os"
	"syscall"
)

func identifyFile(path string) (FileID, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return FileID{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return FileID{Dev: uint64(st.Dev), Ino: uint64(st.Ino), Birth: birth(st)}, nil
}

func renameNew(from, to string) error { return linkNew(from, to) }
