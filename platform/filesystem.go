package platform

import "runtime"

// A Filesystem says what a path lies on.
type Filesystem struct {
	// Kind is the filesystem's name, such as "ext4" or "nfs"; "unknown", perhaps with a number,
	// where it has no name that we know.
	Kind string
	// Trusted means that the kernel which grants locks here is the only one that does, and grants
	// none twice: the filesystem is on the list of local ones. NFS, CIFS, FUSE, virtiofs, 9p and
	// all unknown ones are not.
	Trusted bool
}

// FilesystemOf returns the filesystem that path, which must exist, lies on.
func FilesystemOf(path string) (Filesystem, error) {
	var kind string
	err := again(func() (err error) { kind, err = filesystemKind(path); return err })
	if err != nil || kind == "" {
		return Filesystem{Kind: "unknown"}, pathError("statfs", path, err)
	}
	return Filesystem{Kind: kind, Trusted: trustedKinds[kind]}, nil
}

// trustedKinds is the allowlist, by the names that filesystemKind gives.
var trustedKinds = map[string]bool{
	"ext4": true, // and ext2, ext3, which share its number
	"xfs":  true, "btrfs": true, "zfs": true, "f2fs": true, "tmpfs": true, "overlay": true,
	"apfs": true,
	"ufs":  true, "ffs": true, // one filesystem, by its FreeBSD and OpenBSD names
	"ntfs": runtime.GOOS == "windows", // on Linux, the modes of its files are the mount's
}
