package command

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
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

// TestPermits_Out: the permit of a holder that died can be had.
func TestPermits_Out(t *testing.T) {
	var all []permit
	for i, state := range []evidence.State{evidence.Free, evidence.Held, evidence.Dead, evidence.Unknown, ""} {
		all = append(all, permit{i + 1, lock.Status{State: state}})
	}
	if got := out(all); len(got) != 2 || got[0].Number != 2 || got[1].Number != 4 {
		t.Errorf("%+v can't be had, want those that are held or unknown", got)
	}
}
