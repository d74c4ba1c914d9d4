package claims_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestSnapshot_FIFO: nothing waits for one.
func TestSnapshot_FIFO(t *testing.T) {
	dir, c := snapshotted(t)
	check(t, errors.Join(os.Remove(snapshotFile(dir)), syscall.Mkfifo(snapshotFile(dir), 0o644)))
	that(t, !used(t, dir, c, "1"), "used")
	claim(t, manager(dir, c), "2", "b")
	fill(t, dir, last+2)
	_, err := manager(dir, c).Reap(t.Context())
	if check(t, err); !used(t, dir, c, "1", "2") {
		t.Error("the next one is not used")
	}
}

// TestSnapshot_DiskFull: where the disk has room for an event, and for no snapshot, a claim is
// made, and nothing is left of the snapshot.
func TestSnapshot_DiskFull(t *testing.T) {
	if !testkit.WithMounts(t) {
		return
	}
	dir := filepath.Join(testkit.Mount(t, "tmpfs", "size=4m"), "proof")
	c := newClock()
	over(t, dir, 0, 200) // the ends make it large: 25 KB
	check(t, os.Mkdir(filepath.Join(dir, "locks"), 0o755))
	room, err := os.Create(filepath.Join(dir, "room"))
	check(t, err)
	for err == nil {
		_, err = room.Write(make([]byte, 4096))
	}
	info, err := room.Stat()
	check(t, errors.Join(err, room.Truncate(info.Size()-6*4096), room.Close()))
	claim(t, manager(dir, c), "2", "b")
	if got, _ := filepath.Glob(filepath.Join(dir, "ledger", ".*claims*")); len(got) > 0 {
		t.Errorf("%q is left", got)
	}
	check(t, os.Remove(filepath.Join(dir, "room")))
	claim(t, manager(dir, c), "3", "b")
	that(t, exists(snapshotFile(dir)), "no snapshot, though there is room")
}

// TestSnapshot_ReadOnly: a snapshot serves who may read and not write.
func TestSnapshot_ReadOnly(t *testing.T) {
	dir, a := unprivileged(t)
	fill(t, dir, last)
	for n := 1; n <= last; n++ {
		check(t, os.Chmod(eventFile(dir, n), 0o644))
	}
	check(t, os.Chmod(filepath.Join(dir, "ledger"), 0o777))
	if answer := a.Say("reap"); answer != "ok 0" || !exists(snapshotFile(dir)) {
		t.Fatalf("reap: %s", answer)
	}
	write(t, eventFile(dir, 50), corrupt["no owner"])
	check(t, os.Chmod(filepath.Join(dir, "ledger"), 0o555))
	equal(t, a.Say("look"), "ok 0", "look")
}
