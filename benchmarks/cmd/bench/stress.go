//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// stress acquires and releases until it is killed, and says each time whether it was
// alone.
func (a *agent) stress() error {
	for {
		release, err := a.peer.lock(a.path)
		if err != nil {
			return err
		}
		alone := underLock(a.path)
		// A peer that finds out here that it lost its lock is right to say so, and
		// the acquisition has been counted for what it was.
		_ = release()
		if _, err := fmt.Println("ok", alone); err != nil {
			return err
		}
	}
}

// underLock does what must not be done by two at once: it puts up a mark, a symbolic
// link which names its maker, raises a counter in two steps, and takes the mark down.
// It returns 1, or 0 if the mark showed somebody else. A mark whose maker was killed
// is nobody's.
func underLock(path string) (alone int) {
	alone = 1
	mark, counter, me := path+".mark", path+".counter", strconv.Itoa(os.Getpid())
	for range 2 {
		err := os.Symlink(me, mark)
		if err == nil {
			break
		}
		owner, rerr := os.Readlink(mark)
		if !errors.Is(err, fs.ErrExist) || rerr != nil || alive(owner) || os.Remove(mark) != nil {
			alone = 0
		}
	}
	text, _ := os.ReadFile(counter)
	n, _ := strconv.Atoi(string(text))
	// Renamed into place, so that a kill leaves the old or the new.
	if os.WriteFile(counter+"."+me, []byte(strconv.Itoa(n+1)), 0o600) != nil || os.Rename(counter+"."+me, counter) != nil {
		alone = 0
	}
	if owner, _ := os.Readlink(mark); owner != me || os.Remove(mark) != nil {
		alone = 0
	}
	return alone
}

// alive reports whether a process is at work. One that was killed lets go of its lock
// shortly before it has gone, so it is given a second to go.
func alive(pid string) bool {
	for range 1000 {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") || strings.Contains(string(stat), ") X ") {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}
