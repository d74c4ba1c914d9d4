package queue

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// TestLooks: a wait for a sibling that is locked is looked after less and less often, but not
// for ever. The Lines are of this test alone.
func TestLooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sibling")
	s := &Sibling{Path: path, Lines: New(), Lock: "lock", Trusted: true}
	open := func() *platform.File {
		t.Helper()
		f, err := s.Open()
		if err == nil {
			_, err = f.Stat()
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	holder := open()
	if err := holder.TryLock(platform.Exclusive); err != nil {
		t.Fatal(err)
	}
	w := new(Waiter)
	w.Stand(s, platform.Exclusive, time.Now(), nil)
	gone := make(chan struct{})
	parked := &wait{file: open(), mode: platform.Exclusive, giveBack: func(f *platform.File, _ error) { _ = f.Close(); close(gone) }}
	if !w.line.park(atSibling, parked) {
		t.Fatal("too many threads")
	}
	watch := siblingWatch{waiter: w, parked: parked, looks: newLooks()}
	var got []time.Duration
	for range 7 {
		got = append(got, watch.check())
	}
	const ms = time.Millisecond
	if want := []time.Duration{40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, 1000 * ms, 1000 * ms}; !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	w.Leave()
	if err := holder.Close(); err != nil {
		t.Error(err)
	}
	<-gone
	for s.Lines.Parked()+s.Lines.Count() > 0 {
		time.Sleep(time.Millisecond)
	}
}
