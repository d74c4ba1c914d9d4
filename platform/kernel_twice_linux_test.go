//go:build !portable

package platform_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
	"golang.org/x/sys/unix"
)

// TestListKernelLocks_Twice: the kernel gives the list in pieces, and so may give a lock
// twice, with who waits for it. Nobody is counted twice.
func TestListKernelLocks_Twice(t *testing.T) {
	const list = `1: FLOCK  ADVISORY  WRITE 100 fd:00:7 0 EOF
1: -> FLOCK  ADVISORY  WRITE 101 fd:00:7 0 EOF
2: OFDLCK ADVISORY  WRITE -1 fd:00:7 1 1
2: -> OFDLCK ADVISORY  WRITE -1 fd:00:7 1 1
2: -> OFDLCK ADVISORY  WRITE -1 fd:00:7 1 1
3: OFDLCK ADVISORY  READ -1 fd:00:7 1767323045678901234 1767323045678901234
4: FLOCK  ADVISORY  READ 200 fd:00:8 0 EOF
5: FLOCK  ADVISORY  READ 201 fd:00:8 0 EOF
5: -> FLOCK  ADVISORY  WRITE 202 fd:00:8 0 EOF
`
	for name, text := range map[string]string{"once": list, "twice": list + list} {
		locks := must(platform.ReadKernelLocks(text))(t)
		alone, together := platform.FileID{Dev: unix.Mkdev(0xfd, 0), Ino: 7}, platform.FileID{Dev: unix.Mkdev(0xfd, 0), Ino: 8}
		if got := locks.Holders(alone); !slices.Equal(got, []int{100}) {
			t.Errorf("%s: held by %v", name, got)
		}
		if got := locks.Waiters(alone); len(got) != 3 || got[0].PID != 101 || got[1].Since.UnixNano() != 1767323045678901234 || !got[2].Since.IsZero() {
			t.Errorf("%s: waited for by %v", name, got)
		}
		if got := locks.Waiters(together); len(got) != 1 || got[0].PID != 202 {
			t.Errorf("%s: waited for by %v, together", name, got)
		}
	}
}
