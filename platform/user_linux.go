package platform

import (
	"bufio"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// userName reads /etc/passwd itself. The C library's way may ask a server, which may not
// answer, and a lock must not wait for that.
func userName(uid int) string {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return ""
	}
	defer f.Close()
	number := strconv.Itoa(uid)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if field := strings.Split(lines.Text(), ":"); len(field) > 2 && field[2] == number {
			return field[0]
		}
	}
	return ""
}

// workingDir is one system call. (os.Getwd first compares two folders with each other.)
func workingDir() string {
	var buf [unix.PathMax]byte
	n, err := unix.Getcwd(buf[:])
	if err != nil || n < 2 || buf[0] != '/' { // "(unreachable)"
		return ""
	}
	return string(buf[:n-1]) // without the NUL
}

func ownerOf(info fs.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}
