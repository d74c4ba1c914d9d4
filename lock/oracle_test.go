package lock_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// intervals are two oracles for exclusion in one process: when each was in, by the
// monotonic clock, and files that tell who is in.
type intervals struct {
	mu  sync.Mutex
	all []interval
}

type interval struct {
	from, to time.Time // with monotonic readings
	shared   bool
}

func (i *intervals) add(from time.Time, shared bool) {
	to := time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, interval{from, to, shared})
}

// alone is work under an exclusive lock.
func (i *intervals) alone(t *testing.T, path string) {
	from := time.Now()
	occupied := path + ".occupied"
	f, err := os.OpenFile(occupied, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Error("not alone:", err)
		return
	}
	f.Close()
	if readers, _ := filepath.Glob(path + ".reader.*"); len(readers) != 0 {
		t.Error("not alone:", readers)
	}
	noErr(t, os.Remove(occupied), "not alone")
	i.add(from, false)
}

// together is work under a shared lock.
func (i *intervals) together(t *testing.T, path string) {
	from := time.Now()
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".reader.*")
	if err != nil {
		t.Error(err)
		return
	}
	f.Close()
	that(t, errOf(os.Lstat(path+".occupied")) != nil, "a reader beside a writer")
	noErr(t, os.Remove(f.Name()))
	i.add(from, true)
}

// check fails the test if somebody was in with a writer.
func (i *intervals) check(t *testing.T) (readersTogether int) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	slices.SortFunc(i.all, func(a, b interval) int { return a.from.Compare(b.from) })
	var latest, latestWriter time.Time
	for _, in := range i.all {
		until := latestWriter
		if !in.shared {
			until = latest
		}
		that(t, !in.from.Before(until), "in at %v (shared: %v), while another was until %v", in.from, in.shared, until)
		if in.from.Before(latest) {
			readersTogether++
		}
		if in.to.After(latest) {
			latest = in.to
		}
		if !in.shared && in.to.After(latestWriter) {
			latestWriter = in.to
		}
	}
	return readersTogether
}
