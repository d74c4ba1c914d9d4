package platform

import (
	"fmt"

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

func filesystemKind(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", err
	}
	if kind, ok := kinds[uint32(st.Type)]; ok {
		return kind, nil
	}
	return fmt.Sprintf("unknown (%#x)", uint32(st.Type)), nil
}
