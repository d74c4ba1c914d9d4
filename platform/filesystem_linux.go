package platform

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// kinds are the numbers of statfs(2), from linux/magic.h; zfs and ntfs3 (whose
// number is ASCII) from their own sources.
var kinds = map[uint32]string{
	unix.EXT4_SUPER_MAGIC:      "ext4",
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	0x2fc12fc1:                 "zfs",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	0x7366746e:                 "ntfs",
	unix.NFS_SUPER_MAGIC:       "nfs",
	unix.SMB_SUPER_MAGIC:       "smb",
	unix.SMB2_SUPER_MAGIC:      "smb2",
	unix.CIFS_SUPER_MAGIC:      "cifs",
	unix.FUSE_SUPER_MAGIC:      "fuse", // and virtiofs
	unix.V9FS_MAGIC:            "9p",
	unix.CEPH_SUPER_MAGIC:      "ceph",
	unix.RAMFS_MAGIC:           "ramfs",
	unix.SQUASHFS_MAGIC:        "squashfs",
	unix.PROC_SUPER_MAGIC:      "proc",
	unix.SYSFS_MAGIC:           "sysfs",
	unix.ECRYPTFS_SUPER_MAGIC:  "ecryptfs",
	unix.MSDOS_SUPER_MAGIC:     "vfat",
	unix.EXFAT_SUPER_MAGIC:     "exfat",
}

// mounts has the kinds of mounts by their unique numbers (statx(2), STATX_MNT_ID_UNIQUE, Linux
// 6.8), which no later mount gets. So statfs(2), which takes 2 to 19 µs, is asked once for each.
// An older kernel does not tell the number, and is asked each time.
var mounts struct {
	sync.Mutex
	kinds map[uint64]string
}

// maxMounts bounds mounts: a machine may mount and unmount for years.
const maxMounts = 1000

func filesystemKind(path string) (string, error) {
	id, known := mountOf(unix.AT_FDCWD, path, 0)
	if known {
		mounts.Lock()
		kind, is := mounts.kinds[id]
		mounts.Unlock()
		if is {
			return kind, nil
		}
	}
	return askKind(path)
}

// mountOf returns the unique number of a mount.
func mountOf(dir int, path string, flags int) (id uint64, known bool) {
	var st unix.Statx_t
	err := statPath(dir, path, flags|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID_UNIQUE, &st)
	return st.Mnt_id, err == nil && st.Mask&unix.STATX_MNT_ID_UNIQUE != 0
}

// askKind asks both questions of one descriptor, as something may be mounted at the path in
// between.
func askKind(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return "", err
	}
	kind, ok := kinds[uint32(st.Type)]
	if !ok {
		kind = fmt.Sprintf("unknown (%#x)", uint32(st.Type))
	}
	if id, known := mountOf(fd, "", unix.AT_EMPTY_PATH); known {
		mounts.Lock()
		defer mounts.Unlock()
		if mounts.kinds == nil || len(mounts.kinds) >= maxMounts {
			mounts.kinds = map[uint64]string{}
		}
		mounts.kinds[id] = kind
	}
	return kind, nil
}
