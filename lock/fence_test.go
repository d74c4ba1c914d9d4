package lock_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
)

// second is the second of two results.
func second[A, B any](_ A, b B) B { return b }

// The fence.

func fenceOf(t *testing.T, file lock.File) int64 {
	t.Helper()
	held := tryHold(t, file)
	defer letGo(t, held)
	first := must(held.Fence())(t)
	if again, err := held.Fence(); err != nil || again != first {
		t.Errorf("one holder got %d and %d (%v)", first, again, err)
	}
	return first
}

func TestFence_GrowsWithEachHolder(t *testing.T) { // guards: F1
	path := filepath.Join(t.TempDir(), "lock")
	clock := time.Now()
	last := int64(0)
	for i, file := range []lock.File{
		{Path: path},
		{Path: path},
		lock.File{Path: path}.WithClock(func() time.Time { return clock.Add(-24 * time.Hour) }),
		lock.File{Path: path}.WithClock(func() time.Time { return time.Unix(0, 0) }),
		lock.File{Path: path}.WithClock(func() time.Time { return clock.Add(24 * time.Hour) }),
		{Path: path},
		lock.File{Path: path}.WithoutKernelLock(),
	} {
		fence := fenceOf(t, file)
		that(t, fence > last, "holder %d got %d after %d", i, fence, last)
		if i == 0 && (fence < clock.UnixMicro() || fence > engine.MaxFence) {
			t.Errorf("first fence %d, by the clock at %d; want at least that, and less than 2^53", fence, clock.UnixMicro())
		}
		that(t, i != 3 || fence == last+1, "clock set back: %d after %d, want the next number", fence, last)
		last = fence
	}
}

func TestFence_LayoutInSibling(t *testing.T) { // guards: F3
	path := filepath.Join(t.TempDir(), "lock")
	putFile(t, path+".flock", nil, time.Time{})
	before := must(os.Lstat(path + ".flock"))(t)
	fence := fenceOf(t, lock.File{Path: path})
	equal(t, string(getFile(t, path+".flock"))[:23], fmt.Sprintf("\x00\x00%020d\n", fence), "sibling has")
	after, err := os.Lstat(path + ".flock")
	that(t, err == nil && os.SameFile(before, after), "the sibling was replaced (%v)", err)

	// A known number is read, and raised.
	const known = int64(4e15)
	putFile(t, path+".flock", fmt.Appendf(nil, "\x00\x00%020d\n", known), time.Time{})
	equal(t, fenceOf(t, lock.File{Path: path}), known+1, "after", known, "came")
}

func TestFence_NotAskedForIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := tryHold(t, lock.File{Path: path})
	if data := getFile(t, path+".flock"); len(data) != 0 {
		t.Errorf("sibling has %q", data)
	}
	letGo(t, held)
	if fence := getFile(t, path+".flock")[:23]; strings.Trim(string(fence), "\x00") != "" {
		t.Errorf("sibling has %q", fence)
	}
}

func TestFence_SurvivesNULs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	content := strings.Repeat("\x00", 100)
	putSibling(t, path, content)
	before := time.Now().UnixMicro()
	fence := fenceOf(t, lock.File{Path: path})
	that(t, fence >= before, "fence is %d, below the clock, %d", fence, before)
	if next := fenceOf(t, lock.File{Path: path}); next <= fence {
		t.Errorf("after %d came %d", fence, next)
	}
	after := getFile(t, path+".flock")
	if string(after[:2]) != content[:2] || string(after[23:64]) != content[23:64] {
		t.Errorf("bytes around the fence have changed: %q", after[:64])
	}
}

// TestFence_SparesData: a file named like a sibling may be somebody's.
func TestFence_SparesData(t *testing.T) { // guards: F3
	for name, content := range map[string]string{
		"text":       "XYnot a number, not at all, not even nearly one\n",
		"short":      "XY123",
		"no newline": "XY00000000000000000123xxx",
		"cut":        "XY00000000000000000123",
		"too big":    "XY99999999999999999999\n",
		"negative":   "XY-0000000000000000123\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			putFile(t, path+".flock", []byte(content), time.Time{})
			held := tryHold(t, lock.File{Path: path})
			defer letGo(t, held)
			if fence, err := held.Fence(); err == nil || !strings.Contains(err.Error(), path+".flock: ") || !strings.Contains(err.Error(), "remove this file") {
				t.Errorf("fence is %d, %v; want an error with the file and the cure", fence, err)
			}
			equal(t, string(getFile(t, path+".flock")), content, "the file has now")
		})
	}
}

// TestFence_OutOfReason: a number that no holder was given, such as one of nanoseconds, ends
// the use of fences, and of nothing else: the error names the file, and removing it, as the
// error says, is the cure. Until then the file stays as it is, beside what tidies up as well.
func TestFence_OutOfReason(t *testing.T) { // guards: F2
	for _, number := range []int64{math.MaxInt64, engine.MaxFence, time.Now().UnixNano()} {
		path := filepath.Join(t.TempDir(), "a.lock")
		content := fmt.Sprintf("\x00\x00%020d\n", number)
		putFile(t, path+".flock", []byte(content), time.Time{})
		file := lock.File{Path: path}
		held := tryHold(t, file)
		fence, err := held.Fence()
		if err == nil || !strings.Contains(err.Error(), path+".flock: ") || !strings.Contains(err.Error(), "century") ||
			!strings.Contains(err.Error(), "remove this file while nobody has the lock") {
			t.Errorf("after %d came %d, %v; want an error with the file and the cure", number, fence, err)
		}
		if data := getFile(t, path+".flock"); string(data) != content {
			t.Errorf("the file has now %q", data)
		}
		letGo(t, held)
		for _, how := range []lock.Tidying{{}, {OlderThan: time.Nanosecond}} {
			for tidied, err := range lock.Tidy(t.Context(), filepath.Dir(path), how) {
				if err != nil || tidied.Needless || !strings.Contains(tidied.Why, "out of all reason") {
					t.Errorf("Tidy: %+v, %v", tidied, err)
				}
			}
		}
		check(t, os.Remove(path+".flock"))
		before := time.Now().UnixMicro()
		if fence := fenceOf(t, file); fence < before || fence > engine.MaxFence {
			t.Errorf("mended, it is %d", fence)
		}
	}
}

// TestFence_Shown: whoever looks sees the last fence, whether the lock is held or free.
func TestFence_Shown(t *testing.T) {
	file := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
	shows := func(when string, want int64) {
		t.Helper()
		equal(t, inspect(t, file).Fence, want, when)
	}
	held := tryHold(t, file)
	shows("held, not asked for", 0)
	fence := must(held.Fence())(t)
	shows("held", fence)
	letGo(t, held)
	shows("free", fence)
	putFile(t, file.Path+".flock", []byte("XY00000000000000000123xxx"), time.Time{})
	shows("in somebody's data", 0)
}

func TestFence_SurvivesDeletionOfSibling(t *testing.T) { // guards: F1
	path := filepath.Join(t.TempDir(), "lock")
	first := fenceOf(t, lock.File{Path: path})
	check(t, os.Remove(path+".flock"))
	next := fenceOf(t, lock.File{Path: path})
	that(t, next > first, "after %d came %d", first, next)
	// While it is held, too.
	held := tryHold(t, lock.File{Path: path})
	check(t, os.Remove(path+".flock"))
	fence, err := held.Fence()
	that(t, err == nil && fence > next, "after %d came %d (%v)", next, fence, err)
	letGo(t, held)
}

func TestFence_NotForThoseWhoNoLongerHold(t *testing.T) { // guards: F3
	path := filepath.Join(t.TempDir(), "lock")
	held := tryHold(t, lock.File{Path: path})
	letGo(t, held)
	if fence, err := held.Fence(); err == nil || errors.Is(err, lock.ErrLost) || !strings.Contains(err.Error(), "was released") {
		t.Errorf("fence after Release is %d, %v; want an error that says so", fence, err)
	}
	// Nor a greater one than the holder's for who was robbed of it, and has not noticed.
	robbed := tryHold(t, lock.File{Path: path})
	check(t, errors.Join(os.Remove(path), os.Remove(path+".flock")))
	held = tryHold(t, lock.File{Path: path})
	defer letGo(t, held)
	if fence, err := held.Fence(); err != nil {
		t.Error(fence, err)
	}
	if fence, err := robbed.Fence(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("fence of who was robbed is %d, %v; want ErrLost", fence, err)
	}
	wantErr(t, robbed.Release(), lock.ErrLost)
}
