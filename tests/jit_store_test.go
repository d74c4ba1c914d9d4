package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// jitStore is jit's storage: an index of issues, and a file for each.
type jitStore string

func (s jitStore) index() string          { return filepath.Join(string(s), "index.json") }
func (s jitStore) issue(id string) string { return filepath.Join(string(s), id+".json") }

func newStore(t *testing.T) jitStore { return jitStore(t.TempDir()) }

func (s jitStore) create(id string) error {
	return lock.Update(context.Background(), s.index(), func(old []byte) ([]byte, error) {
		ids, err := decodeIDs(old)
		if err != nil {
			return nil, err
		}
		if err := s.change(id, func(int) (int, error) { return 0, nil }); err != nil { // index, then issue
			return nil, err
		}
		return json.Marshal(append(ids, id))
	})
}

func decodeIDs(data []byte) (ids []string, err error) {
	if data == nil {
		return nil, nil
	}
	return ids, json.Unmarshal(data, &ids)
}

// An issue's file has a number, many times over, so that a mixed one shows.
func (s jitStore) change(id string, f func(int) (int, error)) error {
	return s.changeWithin(context.Background(), id, f)
}

func (s jitStore) changeWithin(ctx context.Context, id string, f func(int) (int, error)) error {
	return lock.Update(ctx, s.issue(id), func(old []byte) ([]byte, error) {
		n, err := decodeIssue(old)
		if err != nil {
			return nil, err
		}
		if n, err = f(n); err != nil {
			return nil, err
		}
		return json.Marshal(slices.Repeat([]int{n}, 1+n*977%5000))
	})
}

func decodeIssue(data []byte) (int, error) {
	if data == nil {
		return 0, nil
	}
	var all []int
	if err := json.Unmarshal(data, &all); err != nil {
		return 0, fmt.Errorf("torn: %w", err)
	}
	if len(all) == 0 || len(all) != 1+all[0]*977%5000 || slices.Min(all) != slices.Max(all) {
		return 0, fmt.Errorf("torn: %d numbers", len(all))
	}
	return all[0], nil
}

func (s jitStore) raise(id string) error {
	return s.change(id, func(n int) (int, error) { return n + 1, nil })
}

func (s jitStore) read(id string) (int, error) {
	data, err := os.ReadFile(s.issue(id))
	if err != nil {
		return 0, err
	}
	return decodeIssue(data)
}

// hasIssue checks an issue's number.
func (s jitStore) hasIssue(t *testing.T, id string, want int) {
	t.Helper()
	if n, err := s.read(id); err != nil || n != want {
		t.Errorf("%s is at %d (%v), want %d", id, n, err, want)
	}
}

// TestJit_ConcurrentIssueCreatesNoCorruption: a hundred, from four processes.
func TestJit_ConcurrentIssueCreatesNoCorruption(t *testing.T) {
	const procs, each = 4, 25
	store := newStore(t)
	var all []*testkit.Child
	for i := range procs {
		all = append(all, testkit.Start(t, "jit-worker", string(store), "create", fmt.Sprint(i*each), fmt.Sprint(each)))
	}
	for _, p := range all {
		ends(t, p)
	}
	data := must(os.ReadFile(store.index()))(t)
	ids, err := decodeIDs(data)
	if err != nil {
		t.Fatalf("the index is corrupt: %v\n%s", err, data)
	}
	var want []string
	for i := range procs * each {
		want = append(want, fmt.Sprint("issue", i))
		store.hasIssue(t, want[i], 0)
	}
	slices.Sort(ids)
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("%d in the index, want %d: %v", len(ids), len(want), ids)
	}
}

// TestJit_FiftyThreadsUpdatingTenIssuesEach: no update is lost, here and with
// another process at it.
func TestJit_FiftyThreadsUpdatingTenIssuesEach(t *testing.T) {
	const threads, issues = 50, 10
	store := newStore(t)
	other := testkit.Start(t, "jit-worker", string(store), "update")
	err := atOnce(threads, func(i int) error {
		for j := range issues {
			if err := store.raise(fmt.Sprint("issue", (i+j)%issues)); err != nil {
				return err
			}
		}
		return store.raise("shared")
	})
	noErr(t, err)
	ends(t, other)
	for j := range issues {
		store.hasIssue(t, fmt.Sprint("issue", j), threads)
	}
	store.hasIssue(t, "shared", threads+8)
}

// TestJit_ConcurrentUpdatesToDifferentIssues: while one process is in the middle of
// an update to A, one to B goes through.
func TestJit_ConcurrentUpdatesToDifferentIssues(t *testing.T) {
	store := newStore(t)
	slow := testkit.Start(t, "jit-worker", string(store), "slow", "A")
	slow.Expect("updating")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	noErr(t, store.changeWithin(ctx, "B", func(int) (int, error) { return 7, nil }))
	store.hasIssue(t, "B", 7)
	ends(t, slow)
	store.hasIssue(t, "A", 1)
}

// TestJit_ConcurrentUpdatesToSameIssue: with a limit the second gives up, and has
// changed nothing; without one it waits, and builds on the first.
func TestJit_ConcurrentUpdatesToSameIssue(t *testing.T) {
	store := newStore(t)
	slow := testkit.Start(t, "jit-worker", string(store), "slow", "A")
	slow.Expect("updating")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := store.changeWithin(ctx, "A", func(int) (int, error) { return 99, errors.New("was called") })
	var locked *lock.LockedError
	if !errors.As(err, &locked) || !errors.Is(err, lock.ErrTimeout) || locked.Info == nil || locked.Info.PID != slow.Cmd.Process.Pid {
		t.Errorf("error is %v", err)
	}
	that(t, !exists(store.issue("A")), "the issue is there already")
	var all []*testkit.Child
	for range 3 {
		all = append(all, testkit.Start(t, "jit-worker", string(store), "slow", "A"))
	}
	ends(t, slow)
	var others sync.WaitGroup
	for _, p := range all { // in whatever order they come
		others.Go(func() { ends(t, p) })
	}
	others.Wait()
	store.hasIssue(t, "A", 4)
}

// jitReader reads an issue until its input ends, without a lock and with a shared
// one, and says "reading" once it has seen it.
func jitReader(store jitStore) error {
	done := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	f := lock.File{Path: store.issue("A") + ".lock"}
	for last, i := 0, 0; ; i++ {
		var n int
		var err error
		if i%4 == 0 {
			var held *lock.FileHold
			if held, err = sharing(f).Acquire(context.Background()); err != nil {
				return err
			}
			n, err = store.read("A")
			err = errors.Join(err, held.Release())
		} else {
			n, err = store.read("A")
		}
		if err != nil {
			return err
		}
		if n < last {
			return fmt.Errorf("went back from %d to %d", last, n)
		}
		last = n
		if i == 10 {
			fmt.Println("reading")
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

// TestJit_ConcurrentReadWriteIssue: one writer, and five readers that are
// processes, and that never see a torn file, nor an older one than before.
func TestJit_ConcurrentReadWriteIssue(t *testing.T) {
	store := newStore(t)
	check(t, store.raise("A"))
	var readers []*testkit.Child
	for range 5 {
		readers = append(readers, testkit.Start(t, "jit-worker", string(store), "read"))
	}
	for _, p := range readers {
		p.Expect("reading")
	}
	for range 100 {
		check(t, store.raise("A"))
	}
	for _, p := range readers {
		ends(t, p)
	}
	store.hasIssue(t, "A", 101)
}

// TestJit_DependencyAddWithConcurrentReads: a dependency is written to two issues,
// in place, under both locks. Who lists them under both sees it in both, or in
// neither.
func TestJit_DependencyAddWithConcurrentReads(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	put := func(n int) error {
		return errors.Join(os.WriteFile(a, []byte(strconv.Itoa(n)), 0o600), os.WriteFile(b, []byte(strconv.Itoa(n)), 0o600))
	}
	check(t, put(0))
	lockA, lockB := lock.File{Path: a + ".lock"}, lock.File{Path: b + ".lock"}
	var writing sync.WaitGroup
	var written atomic.Bool
	for _, order := range [][]lock.File{{lockA, lockB}, {lockB, lockA}} {
		writing.Go(func() {
			for n := range 50 {
				set, err := lock.AcquireAll(t.Context(), order...)
				if err != nil {
					t.Error(err)
					return
				}
				noErr(t, errors.Join(put(n), set.Release()))
			}
		})
	}
	var reading sync.WaitGroup
	for range 3 {
		reading.Go(func() {
			for !written.Load() {
				first, err := sharing(lockA).Acquire(t.Context()) // in the order of the names, as a set
				if err != nil {
					t.Error(err)
					return
				}
				second, err := sharing(lockB).Acquire(t.Context())
				if err != nil {
					t.Error(errors.Join(err, first.Release()))
					return
				}
				inA, errA := os.ReadFile(a)
				inB, errB := os.ReadFile(b)
				if errA != nil || errB != nil || len(inA) == 0 || string(inA) != string(inB) {
					t.Errorf("a has %q (%v), b has %q (%v)", inA, errA, inB, errB)
				}
				noErr(t, errors.Join(second.Release(), first.Release()))
			}
		})
	}
	writing.Wait()
	written.Store(true)
	reading.Wait()
}
