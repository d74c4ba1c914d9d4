//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// An agent is a process that uses one peer on one path, as it is told: an order is a
// line, and so is the answer, "ok" and numbers, or "error" and why. Times are
// CLOCK_MONOTONIC in ns, which all processes share. Peers outside Go have an agent of
// their own in peers/, for the same orders but crowd and drain.
//
//	lock [shared]        when it was asked for, when it was had
//	unlock               when it was begun, when it was done
//	cycle NS             acquires and releases for so long: how often, ns, allocations
//	times N              acquires and releases so often
//	loop BEGIN NS HOLD THINK exclusive|shared
//	                     from BEGIN for NS: how often in that time, and each wait
//	stress               until it is killed; for each acquisition 1, or 0 if not alone
//	crowd N              N goroutines wait: threads, and kB that memory has grown by
//	drain                once they have all had it: when, and how often not alone
type agent struct {
	peer    *peer
	path    string
	release func() error
	crowd   sync.WaitGroup
	inside  atomic.Int32
	clashes atomic.Int64
}

// agentVar tells this program to be the agent for the peer that it names.
const agentVar = "HOLDFAST_BENCH_AGENT"

func runAgent(name string) {
	a := &agent{peer: peerNamed(name), path: os.Args[1]}
	orders := bufio.NewScanner(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	for orders.Scan() {
		words := strings.Fields(orders.Text())
		numbers, err := a.obey(words[0], words[1:])
		if err != nil {
			fmt.Fprintln(out, "error", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Fprint(out, "ok")
			for _, n := range numbers {
				fmt.Fprint(out, " ", n)
			}
			fmt.Fprintln(out)
		}
		out.Flush()
	}
}

func (a *agent) obey(order string, args []string) ([]int64, error) {
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(args[i], 10, 64)
		return n
	}
	asked := clock()
	switch order {
	case "lock":
		release, err := a.take(len(args) > 0)(a.path)
		a.release = release
		return []int64{asked, clock()}, err
	case "unlock":
		err := a.release()
		return []int64{asked, clock()}, err
	case "cycle":
		return a.cycle(number(0))
	case "times":
		for range number(0) {
			if err := a.once(); err != nil {
				return nil, err
			}
		}
		return nil, nil
	case "loop":
		return a.loop(number(0), number(1), number(2), number(3), args[4] == "shared")
	case "stress":
		return nil, a.stress()
	case "crowd":
		return a.gather(int(number(0)))
	case "drain":
		a.crowd.Wait()
		return []int64{clock(), a.clashes.Load()}, nil
	}
	return nil, fmt.Errorf("no such order: %s", order)
}

func (a *agent) take(shared bool) locker {
	if shared {
		return a.peer.shared
	}
	return a.peer.lock
}

func (a *agent) once() error {
	release, err := a.peer.lock(a.path)
	if err != nil {
		return err
	}
	return release()
}

func (a *agent) cycle(ns int64) ([]int64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, begin := int64(0), clock()
	for n == 0 || clock() < begin+ns {
		if err := a.once(); err != nil {
			return nil, err
		}
		n++
	}
	took := clock() - begin
	runtime.ReadMemStats(&after)
	return []int64{n, took, int64(after.Mallocs-before.Mallocs) / n}, nil
}

func (a *agent) loop(begin, ns, hold, think int64, shared bool) ([]int64, error) {
	take := a.take(shared)
	time.Sleep(time.Duration(begin - clock()))
	answer := []int64{0}
	for clock() < begin+ns {
		asked := clock()
		release, err := take(a.path)
		if err != nil {
			return nil, err
		}
		had := clock()
		answer = append(answer, had-asked)
		if had < begin+ns {
			answer[0]++
		}
		time.Sleep(time.Duration(hold))
		if err := release(); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(think))
	}
	return answer, nil
}

// gather has n goroutines wait, and answers when no more threads come.
func (a *agent) gather(n int) ([]int64, error) {
	runtime.GC()
	before := status("VmRSS:")
	for range n {
		a.crowd.Go(func() {
			release, err := a.peer.lock(a.path)
			if err != nil {
				a.clashes.Add(1)
				return
			}
			if a.inside.Add(1) != 1 {
				a.clashes.Add(1)
			}
			runtime.Gosched()
			a.inside.Add(-1)
			if release() != nil {
				a.clashes.Add(1)
			}
		})
	}
	threads := int64(-1)
	for range 20 {
		time.Sleep(100 * time.Millisecond)
		now := status("Threads:")
		if now == threads {
			break
		}
		threads = now
	}
	return []int64{threads, status("VmRSS:") - before}, nil
}

// status reads a number of this process from the kernel.
func status(field string) int64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), field)
	var n int64
	fmt.Sscan(rest, &n)
	return n
}

func clock() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
