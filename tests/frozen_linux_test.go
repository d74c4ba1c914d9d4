package tests

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"golang.org/x/sys/unix"
)

// TestFrozen: while a filesystem takes no writes (a snapshot is being made), a wait ends with its
// context, though its lock file is being prepared.
func TestFrozen(t *testing.T) {
	const freeze, thaw = 0xC0045877, 0xC0045878 // FIFREEZE, FITHAW of linux/fs.h
	dir := onImage(t, "ext4", "-q")
	f := lock.File{Path: filepath.Join(dir, "lock")}
	held := must(f.TryAcquire(t.Context()))(t)
	folder := must(os.Open(dir))(t)
	defer folder.Close()
	if err := unix.IoctlSetInt(int(folder.Fd()), freeze, 0); err != nil {
		t.Skip("needs to be allowed to freeze a filesystem: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- errOf(f.Acquire(ctx)) }()
	select {
	case err := <-ended:
		that(t, errors.Is(err, lock.ErrTimeout), "it ended with %v", err)
	case <-time.After(testkit.Patience / 2):
		t.Error("it does not end while the filesystem is frozen")
	}
	check(t, unix.IoctlSetInt(int(folder.Fd()), thaw, 0))
	check(t, held.Release())
	check(t, must(f.TryAcquire(t.Context()))(t).Release())
}
