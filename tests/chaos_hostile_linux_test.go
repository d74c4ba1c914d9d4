package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// hand is what a hand takes away, or puts another file in place of.
type hand int

const (
	noHand hand = iota
	handOnSiblings
	// handOnAll takes lock files, too. If both files of one holder are taken, another gets in:
	// GUARANTEES.md says so. So for each lock it waits, after either, until all who were about
	// something then have gone on to something else.
	handOnAll
)

// prepare makes the folders.
func (s *storm) prepare() {
	for _, name := range []string{"plain", "others"} {
		check(s.T, os.MkdirAll(filepath.Join(s.address, name), 0o700))
	}
}

// victims are the lock files that a hand knows of.
func (s *storm) victims() (paths []string) {
	for thing := range thingClaimed {
		paths = append(paths, lockFileOf(s.address, thing))
	}
	return paths
}

// takeAway takes files away until it is calm, and returns how many.
func (s *storm) takeAway(r *rand.Rand, calm <-chan struct{}) (taken int) {
	for {
		var touched [maxCrowd]uint64
		for _, path := range s.victims() {
			victim := path
			if s.hand == handOnSiblings || r.IntN(2) == 0 {
				victim += ".flock"
			}
			if s.remove(r, victim) {
				taken++
			}
		}
		for i := range touched {
			touched[i] = s.board.slots[i].turn.Load()
		}
		for i := range s.all {
			for first := true; first || s.hand == handOnAll && s.board.slots[i].turn.Load() == touched[i]; first = false {
				select {
				case <-calm:
					return taken
				case <-time.After(time.Duration(r.Int64N(int64(time.Millisecond)))):
				}
			}
		}
	}
}

// remove removes a file, or puts another in its place.
func (s *storm) remove(r *rand.Rand, victim string) bool {
	if r.IntN(3) > 0 || strings.Contains(victim, "dispatch") { // where what is no dispatcher's stays for ever
		return os.Remove(victim) == nil
	}
	if _, err := os.Lstat(victim); err != nil {
		return false
	}
	other := filepath.Join(s.address, "others", "hand")
	var text []byte
	if !strings.HasSuffix(victim, ".flock") {
		text = fmt.Appendf(nil, `{"pid":%d,"created_at":"2026-01-02T03:04:05Z"}`, gone)
	}
	return os.WriteFile(other, text, 0o600) == nil && os.Rename(other, victim) == nil
}

// gone is a pid that no process ever has.
const gone = 1<<22 + 1

// fill fills the disk, and makes room again, until it is calm: with bytes, and with files.
func (s *storm) fill(r *rand.Rand, calm <-chan struct{}) {
	dir := filepath.Join(s.address, "others", "full")
	for {
		_ = os.MkdirAll(dir, 0o700) // there may be no room
		for n := 0; ; n++ {
			size := 1 << 12
			if r.IntN(2) == 0 {
				size = 0
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), make([]byte, size), 0o600); err != nil {
				break
			}
		}
		select {
		case <-calm:
		case <-time.After(time.Duration(r.Int64N(int64(20 * time.Millisecond)))):
		}
		if err := os.RemoveAll(dir); err != nil {
			s.board.breaks("making room: %v", err)
		}
		select {
		case <-calm:
			return
		case <-time.After(time.Duration(r.Int64N(int64(20 * time.Millisecond)))):
		}
	}
}
