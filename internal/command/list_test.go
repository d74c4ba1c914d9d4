package command

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// TestHolderCells: how many hold a lock beside the one that is named.
func TestHolderCells(t *testing.T) {
	for n, want := range map[int]string{0: "-", 1: "5", 2: "5 +1", 3: "5 +2"} {
		s := lock.Status{Processes: []lock.Process{{PID: 5}, {PID: 6}, {PID: 7}}[:n]}
		if pid, _, _, _ := holderCells(s, time.Now()); pid != want {
			t.Errorf("of %d processes the table says %q, want %q", n, pid, want)
		}
	}
}
