//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// imageSize is for a million names of a file, and takes no more room than is written.
const imageSize = 2 << 30

// mkfs makes the filesystems as users have them, with their default features. What mkfs.ext4
// leaves for later would be written while we measure.
var mkfs = map[string][]string{
	"ext4":  {"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"},
	"xfs":   {"mkfs.xfs", "-q"},
	"btrfs": {"mkfs.btrfs", "-q"},
}

// makeDisk makes a filesystem in an image, and mounts it. It needs root, and a loop device.
func makeDisk(kind string) (folder string, remove func(), err error) {
	if os.Geteuid() != 0 {
		return "", nil, errors.New("mounting takes root")
	}
	at, err := os.MkdirTemp("", "bench-disk")
	if err != nil {
		return "", nil, err
	}
	image, folder := filepath.Join(at, "image"), filepath.Join(at, "mnt")
	mounted := false
	remove = func() {
		if mounted {
			if err := unix.Unmount(folder, 0); err != nil {
				fmt.Fprintf(os.Stderr, "bench: %s stays mounted: %v\n", folder, err)
				return // what is in it is not to be removed by its name
			}
		}
		os.RemoveAll(at)
	}
	err = inTurn(
		func() error { return os.Mkdir(folder, 0o700) },
		func() error { return os.WriteFile(image, nil, 0o600) },
		func() error { return os.Truncate(image, imageSize) },
		func() error { return tool(mkfs[kind][0], append(mkfs[kind][1:], image)...) },
		func() error { return tool("mount", "-o", "loop", image, folder) },
	)
	if mounted = err == nil; !mounted {
		remove()
	}
	return folder, remove, err
}

func tool(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// journal says of an ext4 whether it has one: "" of other filesystems. Without a journal ext4
// passes over each inode that was freed lately when it makes a file (fs/ext4/ialloc.c,
// find_inode_bit), which takes up to a millisecond after many removals.
func journal(dir string) string {
	var st unix.Stat_t
	if filesystem(dir) != "ext4" || unix.Stat(dir, &st) != nil {
		return ""
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return ""
	}
	task, err := os.ReadFile("/sys/fs/ext4/" + filepath.Base(device) + "/journal_task")
	switch {
	case err != nil:
		return ""
	case strings.TrimSpace(string(task)) == "<none>":
		return " without a journal"
	}
	return " with a journal"
}
