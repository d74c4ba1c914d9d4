//go:build !portable

package platform_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
	"golang.org/x/sys/unix"
)

// TestReadKernelLocks: what each line of the kernel's list says, and what it does not.
func TestReadKernelLocks(t *testing.T) {
	id := func(major, minor uint32, ino uint64) platform.FileID {
		return platform.FileID{Dev: unix.Mkdev(major, minor), Ino: ino}
	}
	for _, test := range []struct {
		name, list string
		file       platform.FileID
		holders    []int
		waiters    []int // their pids
		anyWait    bool
	}{
		{"both numbers of the device in hexadecimal", "1: FLOCK  ADVISORY  WRITE 100 103:1a:7 0 EOF\n", id(0x103, 0x1a, 7), []int{100}, nil, false},
		{"... which look like decimal ones", "1: FLOCK  ADVISORY  WRITE 100 10:10:7 0 EOF\n", id(0x10, 0x10, 7), []int{100}, nil, false},
		{"the inode in decimal", "1: FLOCK  ADVISORY  WRITE 100 fd:00:131090 0 EOF\n", id(0xfd, 0, 131090), []int{100}, nil, false},
		{"another device", "1: FLOCK  ADVISORY  WRITE 100 fd:01:7 0 EOF\n", id(0xfd, 0, 7), nil, nil, false},
		{"nobody we can see", "1: FLOCK  ADVISORY  WRITE -1 fd:00:7 0 EOF\n", id(0xfd, 0, 7), []int{0}, nil, false},
		{"readers", "1: FLOCK  ADVISORY  READ 100 fd:00:7 0 EOF\n2: FLOCK  ADVISORY  READ 101 fd:00:7 0 EOF\n", id(0xfd, 0, 7), []int{100, 101}, nil, false},
		{"two who wait, of unknown pids", "1: FLOCK  ADVISORY  WRITE 100 fd:00:7 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 0 fd:00:7 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 0 fd:00:7 0 EOF\n",
			id(0xfd, 0, 7), []int{100}, []int{0, 0}, true},
		{"one who waits for two readers", "1: FLOCK  ADVISORY  READ 100 fd:00:7 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 102 fd:00:7 0 EOF\n2: FLOCK  ADVISORY  READ 101 fd:00:7 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 102 fd:00:7 0 EOF\n",
			id(0xfd, 0, 7), []int{100, 101}, []int{102}, true},
		{"at the turnstile alone", "2: OFDLCK ADVISORY  WRITE -1 fd:00:7 1 1\n2: -> OFDLCK ADVISORY  WRITE -1 fd:00:7 1 1\n", id(0xfd, 0, 7), nil, []int{0}, true},
		{"the turnstile, and nobody", "2: OFDLCK ADVISORY  WRITE -1 fd:00:7 1 1\n", id(0xfd, 0, 7), nil, nil, false},
		{"a word of waiting, and nobody", "3: OFDLCK ADVISORY  READ -1 fd:00:7 1767323045678901234 1767323045678901234\n", id(0xfd, 0, 7), nil, nil, false},
		{"locks of other kinds", "1: POSIX  ADVISORY  WRITE 100 fd:00:7 0 EOF\n2: LEASE  ACTIVE    READ  100 fd:00:7 0 EOF\n", id(0xfd, 0, 7), nil, nil, false},
		{"lines cut short, and nonsense", "1: FLOCK\n\n1: FLOCK  ADVISORY  WRITE 100 fd:00 0 EOF\n1: FLOCK  ADVISORY  WRITE 100 fd:zz:7 0 EOF\n1: FLOCK  ADVISORY  WRITE 100 fd:00:7 x EOF\n", id(0xfd, 0, 7), nil, nil, false},
	} {
		locks, err := platform.ReadKernelLocks(test.list)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var waiters []int
		for _, w := range locks.Waiters(test.file) {
			waiters = append(waiters, w.PID)
		}
		if got := locks.Holders(test.file); !slices.Equal(got, test.holders) || locks.Held(test.file) != (len(test.holders) > 0) {
			t.Errorf("%s: held by %v, want %v", test.name, got, test.holders)
		}
		if !slices.Equal(waiters, test.waiters) || locks.AnyWait() != test.anyWait {
			t.Errorf("%s: waited for by %v (%v), want %v", test.name, waiters, locks.AnyWait(), test.waiters)
		}
	}
}
