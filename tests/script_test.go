package tests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestScript runs the scripts of testdata/script, which show the command as people use
// it, by subcommand. What they have beyond testscript's own commands is below, and the
// program hold.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOOS", runtime.GOOS)
			e.Setenv("GOARCH", runtime.GOARCH)
			// The path of a session's socket must be short.
			sockets, err := os.MkdirTemp("", "hf")
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(sockets) })
			e.Setenv("XDG_RUNTIME_DIR", sockets)
			for _, name := range []string{"TZ", "GOMAXPROCS", "GORACE"} {
				if value, ok := os.LookupEnv(name); ok {
					e.Setenv(name, value)
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":   await,
			"capture": capture,
			"exits":   exits,
			"misuse":  misuse,
			"tree":    func(ts *testscript.TestScript, _ bool, args []string) { fmt.Fprint(ts.Stdout(), tree(ts, args[0])) },
		},
		Condition: func(name string) (bool, error) {
			fsys, err := platform.FilesystemOf(os.TempDir()) // where scripts run
			switch name {
			case "trusted":
				return fsys.Trusted, err
			case "heirs":
				return fsys.Trusted && childrenHold(), err
			}
			return false, fmt.Errorf("there is no condition %s", name)
		},
	})
}

// childrenHold reports whether locks can be handed on to children.
func childrenHold() bool {
	f, err := platform.Open(os.Args[0], os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	handed, err := f.Inheritable()
	return errors.Join(err, handed.Close()) == nil
}

// holdFile is the program hold of scripts: hold FILE makes a file, and ends once that is gone.
func holdFile() {
	if err := os.WriteFile(os.Args[1], nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for exists(os.Args[1]) {
		time.Sleep(time.Millisecond)
	}
}

// await waits until a file is there: await FILE
func await(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(testkit.Patience); !exists(ts.MkAbs(args[0])); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("there is never a file %s", args[0])
		}
	}
}

// capture keeps a part of the last standard output in a variable, that which is in
// parentheses: capture NAME PATTERN
func capture(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("no %s in standard output", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// exits runs a program that is to end with an exit code: exits CODE PROGRAM [ARG...]
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case err == nil && want == 0, errors.As(err, &exit) && exit.ExitCode() == want:
	case err == nil:
		ts.Fatalf("exit code 0, want %d", want)
	default:
		ts.Fatalf("%v, want exit code %d", err, want)
	}
}

// misuse runs holdfast as it is not meant to be used: it exits with 64, says so, and
// how it is meant, on standard error alone, and changes nothing: misuse TEXT [ARG...]
func misuse(ts *testscript.TestScript, _ bool, args []string) {
	before := tree(ts, ".")
	exits(ts, false, append([]string{"64", "holdfast"}, args[1:]...))
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output is not for messages: %s", out)
	}
	if said := ts.ReadFile("stderr"); !strings.Contains(said, args[0]) {
		ts.Fatalf("%q is not in what it says", args[0])
	}
	if after := tree(ts, "."); after != before {
		ts.Fatalf("it has changed something:\n%s", diff.Diff("before", []byte(before), "after", []byte(after)))
	}
}

// tree prints all that is at and below a path: tree PATH
func tree(ts *testscript.TestScript, root string) string {
	var b strings.Builder
	ts.Check(filepath.WalkDir(ts.MkAbs(root), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var data []byte
		if info.Mode().IsRegular() {
			if data, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime().UnixNano(), string(data))
		return nil
	}))
	return b.String()
}
