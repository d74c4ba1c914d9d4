//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// process is an agent, as seen from here.
type process struct {
	cmd   *exec.Cmd
	in    *os.File
	lines chan string // closed when it has gone
	errs  *tail
	once  sync.Once
}

// errHung means that a process gave no answer in time.
var errHung = errors.New("did not finish")

// start starts an agent; wrap, if given, is a command that runs it.
func start(p *peer, path string, wrap ...string) (*process, error) {
	command, name := wrap, p.Name
	switch filepath.Ext(p.script) {
	case ".py":
		command = append(command, "python3")
	case ".js":
		command = append(command, "node")
	}
	switch {
	case p.build != "":
		command, name = append(command, p.build), oursName
	case p.script != "":
		dir, err := scriptFolder()
		if err != nil {
			return nil, err
		}
		command = append(command, filepath.Join(dir, p.script))
	default:
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		command = append(command, exe)
	}
	a := &process{errs: &tail{}, lines: make(chan string, 1024)}
	a.cmd = exec.Command(command[0], append(command[1:], path)...)
	a.cmd.Env = append(os.Environ(), agentVar+"="+name)
	a.cmd.Stderr, a.cmd.WaitDelay = a.errs, time.Second
	in, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	a.cmd.Stdin, a.in = in, orders
	out, err := a.cmd.StdoutPipe()
	if err == nil {
		err = a.cmd.Start()
	}
	if err != nil {
		orders.Close()
		return nil, err
	}
	go func() {
		defer close(a.lines)
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			a.lines <- scanner.Text()
		}
	}()
	return a, nil
}

func (a *process) order(words ...any) error {
	_, err := fmt.Fprintln(a.in, words...)
	return err
}

// answer waits for an answer, for so long at most.
func (a *process) answer(limit time.Duration) ([]int64, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case line, ok := <-a.lines:
		if !ok {
			return nil, fmt.Errorf("the process ended: %s", a.errs)
		}
		return parseAnswer(line)
	case <-timer.C:
		return nil, fmt.Errorf("%w in %v", errHung, limit.Round(100*time.Millisecond))
	}
}

func parseAnswer(line string) (numbers []int64, err error) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "ok" {
		return nil, errors.New(strings.TrimPrefix(line, "error "))
	}
	for _, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// ask is order and answer.
func (a *process) ask(limit time.Duration, words ...any) ([]int64, error) {
	if err := a.order(words...); err != nil {
		return nil, err
	}
	return a.answer(limit)
}

// kill ends the process, and returns when it has gone: until it has been waited for,
// others that look for its pid see it.
func (a *process) kill() {
	a.once.Do(func() {
		a.cmd.Process.Kill()
		for range a.lines {
		}
		a.cmd.Wait()
		a.in.Close()
	})
}

// group starts n agents for a peer, which are ready then; stop ends them all.
func group(p *peer, path string, n int) (all []*process, stop func(), err error) {
	stop = func() {
		for _, a := range all {
			a.kill()
		}
	}
	for range n {
		a, err := start(p, path)
		if err != nil {
			stop()
			return nil, func() {}, err
		}
		all = append(all, a)
		if err := a.order("times", 0); err != nil {
			stop()
			return nil, func() {}, err
		}
	}
	// They are there when they answer: some take long to start.
	for _, a := range all {
		if _, err := a.answer(20 * time.Second); err != nil {
			stop()
			return nil, func() {}, err
		}
	}
	return all, stop, nil
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-300):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.text)), " ")
}
