//go:build ignore

// Runs the tests of all modules for all.sh, and tells what came of them: the packages as
// they are done, and at the end what failed, with its output, and what could not run, and
// why. It uses nothing but the standard library, so that it runs where nothing else does.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// runs begin in this order, two at a time: most of their tests wait more than they work.
var runs = []struct {
	name, dir string
	// race says when they are built with the race detector; only, when they run at all. A process
	// takes several times as long to start with the race detector, and the module tests starts
	// many. The processes that the other tests start are built with it only with -complete.
	race, only when
	packages   []string // and flags of their own
	// fresh is with a module cache of its own, which is empty, as on a machine that has seen no
	// Go before.
	fresh bool
}{
	{"", ".", always, always, []string{"./lock/...", "./platform/..."}, false},
	{"", ".", complete, always, []string{"./lock/etcd/...", "./lock/pg/...", "./internal/...", "./cmd/holdfast/..."}, false},
	{"", ".", complete, always, []string{"-skip=" + rehearsals, "./tests/..."}, false},
	{" (empty module cache)", ".", never, always, []string{"-trimpath", "-run=" + rehearsals, "./tests"}, true},
	// On Linux through the path of the other systems.
	{portable, ".", never, always, []string{"-tags=portable", "./platform", "./lock"}, false},
	{portable, ".", never, complete, []string{"-tags=portable", "./lock/ledger", "./lock/claims", "./lock/dispatch", "./lock/repolock", "./lock/locktest",
		"./cmd/holdfast/internal/command"}, false},
	{portable, "tests", never, complete, []string{"-tags=portable", "-run=TestScript", "."}, false},
	{"", "benchmarks", never, always, []string{"./..."}, false},
}

type when int

const (
	never    when = iota
	complete      // with -complete
	always
)

const portable = " (portable)"

// rehearsals are the tests of a release, which must need nothing that a module cache
// happens to have.
const rehearsals = "^(TestRelease|TestPublish)"

// cures are what makes up for what a test says that it needs.
var cures = []struct{ need, cure string }{
	{"strace", "install strace"},
	{"chrom", "install chromium and chromium-driver"},
	{"python3", "install python3"},
	{"node", "install nodejs"},
	{"flock(1)", "install util-linux"},
	{"mkfs.xfs", "install xfsprogs"},
	{"mkfs.btrfs", "install btrfs-progs"},
	{"PostgreSQL", "install postgresql"},
	{"etcd-server", "install etcd-server"},
	{"modules of others", "have Go fetch them, or set GOPROXY"},
	{"git", "install git"},
	{"gcc", "install gcc and libc6-dev"},
	{"race detector", "install gcc and libc6-dev"},
	{"FUSE", "as root, on a kernel with FUSE"},
	{"root", "run it as root"},
}

// event is one line of what go test -json writes.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of a build that failed
}

type outcome struct {
	name   string // package and test
	output []string
}

// run is one go test. Its lines are written whole, so several may go on at once.
type run struct {
	name    string
	log     io.Writer
	output  map[string][]string
	failed  []outcome
	skipped []outcome
	broken  bool // go test failed without a test that did
	// children: the processes that the tests start are of binaries without the race detector.
	children bool
	fresh    bool
}

func main() {
	args := os.Args[1:]
	now := always // what is done, and complete as well with -complete
	if len(args) > 0 && args[0] == "-complete" {
		now, args = complete, args[1:]
		os.Setenv("HOLDFAST_TEST_COMPLETE", "1") // testkit's
	}
	log, err := os.CreateTemp("", "holdfast-tests-*.log")
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests/all.sh:", err)
		os.Exit(1)
	}
	all := &run{}
	_, gcc := exec.LookPath("gcc")
	if gcc != nil {
		all.skipped = append(all.skipped, outcome{"go test -race", []string{"needs gcc, to link the race detector\n"}})
	}
	var started []*run
	var wg sync.WaitGroup
	turns := make(chan struct{}, 2)
	for _, m := range runs {
		if m.only < now {
			continue
		}
		turns <- struct{}{}
		flags := []string{"test", "-json", "-timeout", "30m"}
		if m.race >= now && gcc == nil {
			flags = append(flags, "-race")
		}
		r := &run{name: m.name, log: log, output: map[string][]string{}, children: m.race >= now && gcc == nil && now != complete, fresh: m.fresh}
		started = append(started, r)
		fmt.Printf("== go %s %s, in %s\n", strings.Join(flags, " "), strings.Join(m.packages, " "), m.dir)
		wg.Go(func() {
			r.test(m.dir, append(flags, args...), m.packages)
			<-turns
		})
	}
	wg.Wait()
	for _, r := range started {
		all.failed, all.skipped = append(all.failed, r.failed...), append(all.skipped, r.skipped...)
		all.broken = all.broken || r.broken
	}
	if err := log.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "tests/all.sh:", err)
		all.broken = true
	}
	all.tell(log.Name())
	if len(all.failed) > 0 || all.broken || now == complete && len(all.skipped) > 0 {
		os.Exit(1)
	}
}

// command is the Go tool's, in a folder.
func command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return v == "GOWORK=off" }) // which was for this program
	cmd.Stderr = os.Stderr
	return cmd
}

// test runs the tests of some packages, and notes what came of them.
func (r *run) test(dir string, flags, packages []string) {
	cmd := command(dir, append(flags, packages...)...)
	if r.children {
		binaries, err := os.MkdirTemp("", "holdfast-children-")
		if err == nil {
			defer os.RemoveAll(binaries)
			err = errors.Join(os.Chmod(binaries, 0o755), // some run as other users
				command(dir, append([]string{"test", "-c", "-o", binaries + "/"}, packages...)...).Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "tests/all.sh: building the tests:", err)
			r.broken = true
			return
		}
		cmd.Env = append(cmd.Env, "HOLDFAST_TEST_CHILDREN="+binaries)
	}
	if r.fresh {
		cache, err := os.MkdirTemp("", "holdfast-modules-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "tests/all.sh:", err)
			r.broken = true
			return
		}
		cmd.Env = append(cmd.Env, "GOMODCACHE="+cache)
		defer func() { // its files are read-only
			clean := command(dir, "clean", "-modcache")
			clean.Env = cmd.Env
			if err := errors.Join(clean.Run(), os.RemoveAll(cache)); err != nil {
				fmt.Fprintln(os.Stderr, "tests/all.sh:", err)
			}
		}()
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests/all.sh:", err)
		r.broken = true
		return
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil {
			r.note(e)
		} else if line != "" {
			fmt.Print(line)
			fmt.Fprint(r.log, line)
		}
		if err != nil {
			break
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && (!errors.As(err, &exit) || len(r.failed) == 0) {
		fmt.Printf("go test, in %s%s: %v\n", dir, r.name, err)
		r.broken = true
	}
}

func (r *run) note(e event) {
	name := strings.TrimSuffix(e.Package+" "+e.Test, " ")
	switch e.Action {
	case "output", "build-output":
		fmt.Fprint(r.log, e.Output)
		if e.Action == "build-output" {
			name = e.ImportPath
		}
		r.output[name] = append(r.output[name], e.Output)
		return
	case "fail", "build-fail":
		if e.Action == "build-fail" {
			name = e.ImportPath
		}
		if e.Test == "" && slices.ContainsFunc(r.failed, func(f outcome) bool { return strings.HasPrefix(f.name, name+" ") }) {
			break // its tests have told
		}
		r.failed = append(r.failed, outcome{name + r.name, r.output[name]})
	case "skip":
		// What an engine, or another system's path, does not offer is nothing that is missing here.
		if e.Test != "" && r.name != portable && !strings.Contains(strings.Join(r.output[name], ""), "needs an engine ") {
			r.skipped = append(r.skipped, outcome{name, r.output[name]})
		}
	case "pass":
	default:
		return
	}
	if e.Test == "" && e.Action != "build-fail" {
		for _, line := range r.output[name] {
			if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?") {
				fmt.Print(strings.TrimSuffix(line, "\n") + r.name + "\n")
			}
		}
	}
	delete(r.output, name)
}

// tell says what failed, and what could not run.
func (r *run) tell(log string) {
	for _, f := range r.failed {
		fmt.Printf("\n-- failed: %s\n", f.name)
		for _, line := range f.output {
			if !strings.HasPrefix(strings.TrimSpace(line), "===") {
				fmt.Print(line)
			}
		}
	}
	fmt.Printf("\n%d failed", len(r.failed))
	for _, f := range r.failed {
		fmt.Printf("\n    %s", f.name)
	}
	fmt.Printf("\n%d not run\n", len(r.skipped))
	for _, s := range r.skipped {
		why, cure := "", ""
		for _, line := range s.output {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
				if file, text, found := strings.Cut(line, ": "); found && strings.Contains(file, ".go:") {
					line = text
				}
				why = strings.TrimSpace(why + " " + line)
			}
		}
		for _, c := range cures {
			if cure == "" && strings.Contains(why, c.need) {
				cure = " (" + c.cure + ")"
			}
		}
		fmt.Printf("    %s: %s%s\n", s.name, why, cure)
	}
	fmt.Println("the whole output:", log)
}
