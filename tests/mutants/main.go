//go:build unix

// Mutants breaks the code on purpose, in one place at a time, and says which test notices:
// tests that pass prove little unless they are known to fail.
//
//	go run ./mutants [-j N] [-v] [NAME...]
//
// Each NAME.break here is one break. All are tried, or those that are named, in a copy of
// the tree as it is, uncommitted changes included. A line is printed for each, and the exit
// code is 1 unless each is noticed by a test
//
//   - that an ordinary user can run (as root, it runs as nobody),
//   - and that fails each time: by itself, with one processor, and as root.
//
// The tests that are looked to pass without any break. When they all pass with one, the
// whole of their packages is tried.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A mutant is one break.
type mutant struct {
	name    string
	breaks  string // what no longer holds
	guard   string // of the model, that it takes out; empty if it is none of these
	looks   []look // where it should be noticed
	changes []change
}

// A look is a package, and tests of it.
type look struct{ folder, tests string }

// read reads a break. It says, a line each,
//
//	what no longer holds
//	guard: NAME          of the model, if it is one of these
//	look: FOLDER TESTS   as go test -run has them; any number of times
//
// and then, after an empty line, what readChanges reads.
func read(path string) (*mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &mutant{name: strings.TrimSuffix(filepath.Base(path), ".break")}
	head, changes, _ := strings.Cut(string(text), "\n\n")
	for i, line := range strings.Split(head, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		folder, tests, ok := strings.Cut(value, " ")
		switch {
		case i == 0:
			m.breaks = line
		case key == "guard":
			m.guard = value
		case key == "look" && ok:
			m.looks = append(m.looks, look{folder, tests})
		default:
			return nil, fmt.Errorf("%s: what is %q?", path, line)
		}
	}
	if m.breaks == "" || len(m.looks) == 0 {
		return nil, fmt.Errorf("%s: what it breaks, or where to look, is missing", path)
	}
	if m.changes, err = readChanges(changes); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// readAll reads those that are named, or all, in the order of their names.
func readAll(folder string, named []string) (all []*mutant, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.break"))
	if len(named) > 0 {
		paths = nil
		for _, name := range named {
			paths = append(paths, filepath.Join(folder, name+".break"))
		}
	}
	for _, path := range paths {
		m, merr := read(path)
		err = errors.Join(err, merr)
		all = append(all, m)
	}
	return all, err
}

// apply makes the break in a copy, and returns what undoes it.
func (m *mutant) apply(copy string) (undo func() error, err error) {
	undo = func() error { return nil }
	for _, c := range m.changes {
		undoThis, err := c.apply(copy)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s does not fit any more: %w", m.name, err), undo())
		}
		before := undo
		undo = func() error { return errors.Join(undoThis(), before()) }
	}
	return undo, nil
}

// copyTree copies what git knows of, and what it would add.
func copyTree(from, to string) error {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = from
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and that is not committed yet
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	nobody = 65534
	// limit is how long the tests that are looked to may take. Those that hang notice, too.
	limit = time.Minute
	// most is how long all of a package may take.
	most = 10 * time.Minute
)

// A bench is a copy of the tree, and a place for what tests leave.
type bench struct{ tree, bin, temp string }

func newBench(repository, folder string) (b bench, err error) {
	b = bench{filepath.Join(folder, "tree"), filepath.Join(folder, "bin"), filepath.Join(folder, "temp")}
	for _, dir := range []string{b.tree, b.bin, b.temp} {
		err = errors.Join(err, os.MkdirAll(dir, 0o755))
	}
	return b, errors.Join(err, copyTree(repository, b.tree))
}

// build builds the tests of a package.
func (b bench) build(folder string) (program string, err error) {
	program = filepath.Join(b.bin, strings.ReplaceAll(filepath.Clean(folder), "/", "-")+".test")
	cmd := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir = filepath.Join(b.tree, folder)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go test -c, in %s: %w\n%s", folder, err, out)
	}
	return program, nil
}

// run runs tests, as root, if we are that, or as an ordinary user. It returns the first that
// failed; "" if none has.
func (b bench) run(ctx context.Context, program, folder, tests string, limit time.Duration, asRoot bool, env ...string) (failed, output string) {
	_ = os.RemoveAll(b.temp)
	_ = os.Mkdir(b.temp, 0o755)
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run="+tests, "-test.failfast", "-test.count=1", "-test.v", "-test.timeout="+limit.String())
	cmd.Dir = filepath.Join(b.tree, folder)
	cmd.Env = append(append(os.Environ(), "TMPDIR="+b.temp, "HOME="+b.temp, "HOLDFAST_TEST_COMPLETE=1"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !asRoot && os.Geteuid() == 0 {
		_ = os.Chown(b.temp, nobody, nobody)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if cmd.Process != nil { // what tests that were broken off have started
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return "", out.String()
	}
	return cmp.Or(firstFailed(out.String()), err.Error()), out.String()
}

var (
	failedLine  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	timedOut    = regexp.MustCompile(`(?m)^panic: test timed out[^\n]*\n\trunning tests:\n\t\t(\w+)`)
	startedLine = regexp.MustCompile(`(?m)^=== (?:RUN|NAME) +(\w+)`)
)

// firstFailed finds in the output of tests which of them failed first, or ended them all.
func firstFailed(output string) string {
	for _, line := range []*regexp.Regexp{failedLine, timedOut} {
		if found := line.FindStringSubmatch(output); found != nil {
			return found[1]
		}
	}
	if strings.Contains(output, "the tests have left behind") {
		return "TestMain"
	}
	if all := startedLine.FindAllStringSubmatch(output, -1); all != nil {
		return all[len(all)-1][1]
	}
	return ""
}

// An outcome is what came of a mutant.
type outcome struct {
	by   string // the package and test that noticed; empty if none has
	took time.Duration
	bad  string // why that is not enough
	said string // by the tests
}

// try makes the break, and looks who notices.
func (b bench) try(ctx context.Context, m *mutant) (o outcome) {
	undo, err := m.apply(b.tree)
	if err != nil {
		return outcome{bad: err.Error()}
	}
	defer func() {
		if err := undo(); err != nil {
			o.bad = err.Error()
		}
	}()
	looks := slices.Clone(m.looks)
	for _, l := range m.looks {
		if !slices.Contains(looks, look{l.folder, "."}) {
			looks = append(looks, look{l.folder, "."})
		}
	}
	for i, l := range looks {
		program, err := b.build(l.folder)
		if err != nil {
			return outcome{bad: err.Error()}
		}
		allowed := limit
		if i >= len(m.looks) {
			allowed = most
		}
		failed, said := b.run(ctx, program, l.folder, l.tests, allowed, false)
		if failed == "" {
			continue
		}
		o = outcome{by: strings.TrimPrefix(l.folder+" "+failed, "./"), said: said}
		if i >= len(m.looks) {
			o.bad = "the test that notices is none of those to look to"
		}
		only := "^" + failed + "$"
		if failed == "TestMain" {
			only = l.tests
		}
		for _, asRoot := range []bool{false, true} {
			begun := time.Now()
			again, said := b.run(ctx, program, l.folder, only, limit, asRoot, "GOMAXPROCS=1")
			if !asRoot {
				o.took = time.Since(begun)
			}
			if again == "" {
				o.bad, o.said = fmt.Sprintf("by chance: it was not noticed by that alone, with one processor, as root: %t", asRoot), said
			}
		}
		return o
	}
	return outcome{bad: "nobody notices"}
}

// passes checks that all that is looked to passes without a break.
func (b bench) passes(ctx context.Context, all []*mutant) error {
	tests := map[string][]string{}
	var folders []string
	for _, m := range all {
		for _, l := range m.looks {
			if tests[l.folder] == nil {
				folders = append(folders, l.folder)
			}
			tests[l.folder] = append(tests[l.folder], l.tests)
		}
	}
	for _, folder := range folders {
		program, err := b.build(folder)
		if err != nil {
			return err
		}
		pattern := strings.Join(tests[folder], "|")
		failed, said := b.run(ctx, program, folder, pattern, most, false)
		if failed != "" { // a busy machine
			failed, said = b.run(ctx, program, folder, pattern, most, false)
		}
		if failed != "" {
			return fmt.Errorf("without any break, %s fails in %s:\n%s", failed, folder, said)
		}
	}
	return nil
}

func main() {
	workers := flag.Int("j", 2, "how many are tried at a time")
	verbose := flag.Bool("v", false, "print what the tests said")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *workers, *verbose, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, workers int, verbose bool, named []string) error {
	repository, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	all, err := readAll(filepath.Join(repository, "tests", "mutants"), named)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil { // for nobody
		return err
	}
	var benches []bench
	for n := range workers {
		b, err := newBench(repository, filepath.Join(temp, fmt.Sprint(n)))
		if err != nil {
			return err
		}
		benches = append(benches, b)
	}
	if err := benches[0].passes(ctx, all); err != nil {
		return err
	}
	var workersDone sync.WaitGroup
	next := make(chan int)
	outcomes := make([]chan outcome, len(all))
	for i := range outcomes {
		outcomes[i] = make(chan outcome, 1)
	}
	for _, b := range benches {
		workersDone.Go(func() {
			for i := range next {
				outcomes[i] <- b.try(ctx, all[i])
			}
		})
	}
	go func() {
		defer close(next)
		for i := range all {
			if ctx.Err() == nil {
				next <- i
			} else {
				outcomes[i] <- outcome{}
			}
		}
	}()
	bad := 0
	for i, m := range all {
		o := <-outcomes[i]
		if ctx.Err() != nil { // what came of it means nothing
			break
		}
		fmt.Printf("%-26s %-48s %5.1f s  %s\n", m.name, cmp.Or(o.by, "-"), o.took.Seconds(), m.breaks)
		if o.bad != "" {
			bad++
			fmt.Printf("    %s\n", o.bad)
		}
		if verbose {
			fmt.Println(o.said)
		}
	}
	workersDone.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Printf("%d breaks, %d not noticed as they must be\n", len(all), bad)
	if bad > 0 {
		return fmt.Errorf("%d of %d survive, or are noticed by chance", bad, len(all))
	}
	return nil
}
