package platform

import (
	"strings"

	"golang.org/x/sys/windows"
)

// filesystemKind gives the filesystem's own name in lower case ("ntfs", "refs"), and "remote"
// for what another machine serves: a share has its server's filesystem as its name.
func filesystemKind(path string) (string, error) {
	// Links are followed, as locks are taken on their target.
	h, err := openHandle(path, 0)
	if err != nil {
		return "", err
	}
	defer windows.CloseHandle(h)
	kind, err := driveKind(h)
	if err != nil || kind != "" {
		return kind, err
	}
	var name [windows.MAX_PATH + 1]uint16
	err = windows.GetVolumeInformationByHandle(h, nil, 0, nil, nil, nil, &name[0], uint32(len(name)))
	return strings.ToLower(windows.UTF16ToString(name[:])), err
}

// driveKind returns "remote", "unknown", or "" for a drive of this machine.
func driveKind(h windows.Handle) (string, error) {
	path, err := finalPath(h)
	if err != nil {
		return "", err
	}
	// `\\?\UNC\server\share\...` is how a share is spelled here.
	path, unc := strings.CutPrefix(path, `\\?\UNC\`)
	if unc {
		return "remote", nil
	}
	name, err := windows.UTF16FromString(strings.TrimPrefix(path, `\\?\`))
	if err != nil {
		return "", err
	}
	// The root is a prefix of the path, perhaps with a backslash added.
	root := make([]uint16, len(name)+1)
	if err := windows.GetVolumePathName(&name[0], &root[0], uint32(len(root))); err != nil {
		return "", err
	}
	switch windows.GetDriveType(&root[0]) {
	case windows.DRIVE_REMOTE:
		return "remote", nil
	case windows.DRIVE_UNKNOWN, windows.DRIVE_NO_ROOT_DIR:
		return "unknown", nil
	}
	return "", nil
}

// finalPath is the path of an open file with all links resolved.
func finalPath(h windows.Handle) (string, error) {
	const fileNameOpened = 0x8 // asks a server for nothing, unlike the default
	buf := make([]uint16, windows.MAX_PATH)
	for {
		n, err := windows.GetFinalPathNameByHandle(h, &buf[0], uint32(len(buf)), fileNameOpened)
		if err != nil {
			return "", err
		}
		if n < uint32(len(buf)) {
			return windows.UTF16ToString(buf[:n]), nil
		}
		buf = make([]uint16, n+1)
	}
}
