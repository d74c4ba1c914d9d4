package tests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

func init() { roles["member"] = member }

// member is a process that waits, holds and lets go as it is told, a line each:
// acquire, shared, try, release; loop begins to read-lock in a hot loop, and count
// tells how often it has.
func member(args []string) error {
	f := lock.File{Path: args[0], Cmd: "member", Observe: sayWaiting{}.Observe}
	var held *lock.FileHold
	var err error
	counts := make(chan int)
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		said := "held"
		switch orders.Text() {
		case "acquire":
			held, err = f.Acquire(context.Background())
		case "shared":
			held, err = sharing(f).Acquire(context.Background())
		case "try":
			held, err = f.TryAcquire(context.Background())
		case "release":
			said, err = "released", held.Release()
		case "loop":
			said = "looping"
			go readForEver(lock.File{Path: args[0], Cmd: "reader"}, counts)
		case "count":
			said = strconv.Itoa(<-counts)
		}
		if locked := new(lock.LockedError); errors.As(err, &locked) {
			said, err = "locked", nil
		}
		if err != nil {
			return err
		}
		fmt.Println(said)
	}
	return nil
}

type sayWaiting struct{}

func (sayWaiting) Observe(e lock.Event) {
	if e.Kind == lock.EventWaiting && e.Duration == 0 {
		fmt.Println("waiting")
	}
}

// readForEver holds the lock for a while each time, so that the readers overlap
// and the lock is hardly ever free by itself.
func readForEver(f lock.File, counts chan<- int) {
	for n := 0; ; {
		held, err := sharing(f).Acquire(context.Background())
		if err == nil && exists(f.Path+".occupied") {
			err = errors.New("a reader beside a writer")
		}
		time.Sleep(2 * time.Millisecond) // the work
		if err == nil {
			err = held.Release()
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		n++
		select {
		case counts <- n:
		default:
		}
	}
}

func startMember(t *testing.T, path string) *testkit.Child {
	t.Helper()
	return testkit.Start(t, "member", path)
}

// inKernel waits until so many waits for the lock, or for its turnstile, are in
// the kernel's list.
func inKernel(t *testing.T, path string, n int) {
	t.Helper()
	info := must(os.Stat(path + ".flock"))(t)
	ino := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	eventually(t, fmt.Sprint(n, " wait in the kernel"), func() bool {
		list, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err) // Linux has it
		}
		waits := 0
		for line := range strings.Lines(string(list)) {
			if strings.Contains(line, "->") && strings.Contains(line, ino) {
				waits++
			}
		}
		return waits == n
	})
}

// TestWaiting_Signals: whoever of the holder and those who wait is killed or
// stopped, the others get the lock.
func TestWaiting_Signals(t *testing.T) { // guards: W8
	for _, mode := range []string{"acquire", "shared"} {
		for _, test := range []struct {
			name      string
			interfere func(holder, first, second *testkit.Child)
		}{
			{"holder killed", func(h, f, s *testkit.Child) { h.Kill() }},
			{"first waiter killed", func(h, f, s *testkit.Child) { f.Kill(); h.Do("release", "released") }},
			{"second waiter killed", func(h, f, s *testkit.Child) { s.Kill(); h.Do("release", "released") }},
			{"first waiter stopped", func(h, f, s *testkit.Child) { f.Stop(); h.Do("release", "released") }},
			{"second waiter stopped", func(h, f, s *testkit.Child) { s.Stop(); h.Do("release", "released") }},
		} {
			t.Run(mode+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), ".lock")
				holder, first, second, third := startMember(t, path), startMember(t, path), startMember(t, path), startMember(t, path)
				holder.Do("acquire", "held")
				first.Do(mode, "waiting") // has the turnstile
				inKernel(t, path, 1)
				second.Do(mode, "waiting")
				inKernel(t, path, 2)
				third.Do("acquire", "waiting")
				inKernel(t, path, 3)
				test.interfere(holder, first, second)
				// In any order: past a stopped one there is none.
				var others sync.WaitGroup
				for name, m := range map[string]*testkit.Child{"first": first, "second": second, "third": third} {
					if !strings.HasPrefix(test.name, name) {
						others.Go(func() {
							if said, _ := m.Line(); said != "held" {
								t.Errorf("the %s waiter: %q", name, said)
							}
							m.Order("release")
							if said, _ := m.Line(); said != "released" {
								t.Errorf("the %s waiter: %q", name, said)
							}
						})
					}
				}
				others.Wait()
				if who, stopped := strings.CutSuffix(test.name, " waiter stopped"); stopped {
					m := map[string]*testkit.Child{"first": first, "second": second}[who]
					m.Continue()
					m.Expect("held")
					m.Do("release", "released")
				}
				last := startMember(t, path)
				last.Do("try", "held")
				last.Do("release", "released")
				that(t, !exists(path), "the lock file is left")
			})
		}
	}
}

// TestWaiting_WriterAmongReaders: four processes read in hot loops; a writer gets
// in again and again, alone, and so do the readers in between.
func TestWaiting_WriterAmongReaders(t *testing.T) { // guards: R3
	path := filepath.Join(t.TempDir(), ".lock")
	var readers []*testkit.Child
	for range 4 {
		r := startMember(t, path)
		r.Do("loop", "looping")
		readers = append(readers, r)
	}
	read := func() (n []int) {
		for _, r := range readers {
			count := must(strconv.Atoi(r.Say("count")))(t)
			n = append(n, count)
		}
		return n
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for round := range 20 {
		before := read()
		held, err := lock.File{Path: path}.Acquire(ctx)
		check(t, err, "the writer starves in round", round)
		f := must(os.OpenFile(path+".occupied", os.O_CREATE|os.O_EXCL, 0o600))(t)
		f.Close()
		os.Remove(f.Name())
		check(t, held.Release())
		for i, n := range read() {
			for n <= before[i] {
				n, _ = strconv.Atoi(readers[i].Say("count"))
			}
		}
	}
}

func init() { roles["lap"] = lap }

// lap acquires the lock args[1] times and writes down, under the lock, when it
// began to wait, came in and went out, by the system's monotonic clock.
func lap(args []string) error {
	path := args[0]
	n, _ := strconv.Atoi(args[1])
	for range n {
		arrived := monotonic()
		held, err := lock.File{Path: path, Cmd: "lap"}.Acquire(context.Background())
		if err != nil {
			return err
		}
		in := monotonic()
		f, err := os.OpenFile(path+".occupied", os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("not alone: %w", err)
		}
		f.Close()
		time.Sleep(2 * time.Millisecond) // the work
		log, err := os.OpenFile(path+".log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		fmt.Fprintln(log, os.Getpid(), arrived, in, monotonic())
		log.Close()
		if err := errors.Join(os.Remove(path+".occupied"), held.Release()); err != nil {
			return err
		}
	}
	return nil
}

// monotonic reads CLOCK_MONOTONIC, which all processes share.
func monotonic() int64 {
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		panic(errno)
	}
	return now.Nano()
}

// TestWaiting_Turns: four processes take the lock fifty times each, without a
// pause. All come to their end, nobody is in with another, by two oracles, and
// hardly anybody is passed over more than three rounds.
func TestWaiting_Turns(t *testing.T) { // guards: W2
	const procs, each = 4, 50
	path := filepath.Join(t.TempDir(), ".lock")
	var running []*exec.Cmd
	for range procs {
		running = append(running, background(t, play(t, "lap", path, strconv.Itoa(each))))
	}
	for _, p := range running {
		noErr(t, p.Wait())
	}
	text := must(os.ReadFile(path + ".log"))(t)
	type turn struct {
		pid              int
		arrived, in, out int64
	}
	var turns []turn
	for line := range strings.Lines(string(text)) {
		var s turn
		check(t, errOf(fmt.Sscan(line, &s.pid, &s.arrived, &s.in, &s.out)))
		turns = append(turns, s)
	}
	equal(t, len(turns), procs*each, "turns")
	slices.SortFunc(turns, func(a, b turn) int { return int(a.in - b.in) })
	passedOver, worst := 0, 0
	for i, s := range turns {
		if i > 0 && s.in < turns[i-1].out {
			t.Errorf("pid %d was in with pid %d", s.pid, turns[i-1].pid)
		}
		n := 0
		for _, earlier := range turns[:i] {
			if earlier.in > s.arrived {
				n++
			}
		}
		worst = max(worst, n)
		if n > 3*procs {
			passedOver++
		}
	}
	t.Logf("worst: passed over %d times", worst)
	// Whoever is not scheduled between its arrival and its place in the queue is
	// passed over by no fault of the queue.
	if passedOver > len(turns)/50 {
		t.Errorf("%d of %d times somebody was passed over more than %d times", passedOver, len(turns), 3*procs)
	}
	that(t, !exists(path), "the lock file is left")
}
