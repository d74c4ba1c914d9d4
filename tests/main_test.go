package tests

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/rogpeppe/go-internal/testscript"
)

// roles are what a child can be told to do, with its arguments.
var roles = map[string]func(args []string) error{
	"claim-once": claimOnce,
	"claims":     claimChurn,
	"jit-lock":   jitLock,
	"jit-worker": jitWorker,
	"ledger":     ledgerAppend,
	"ledger-cas": ledgerRace,
}

// holdfast is the command, built for this run.
var holdfast string

func TestMain(m *testing.M) {
	testkit.Play(func(role string, args []string) {
		if err := roles[role](args); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
	})
	testscript.Main(suite{m}, map[string]func(){"hold": holdFile})
}

// suite runs the tests, with the command built for them, and found by its name.
type suite struct{ *testing.M }

func (s suite) Run() int {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	holdfast = filepath.Join(dir, "holdfast")
	args := append([]string{"build", "-o", holdfast}, buildFlags()...)
	build := exec.Command("go", append(args, "github.com/holdfast-go/holdfast/cmd/holdfast")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the command: %v\n%s", err, out)
		return 1
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // or each process would sleep for a second at its end
	os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return testkit.Run(s.M)
}

// buildFlags are those that these tests were built with, and the command is to be, too.
func buildFlags() (flags []string) {
	info, _ := debug.ReadBuildInfo()
	for _, setting := range info.Settings {
		if setting.Key == "-tags" || setting.Key == "-race" {
			flags = append(flags, setting.Key+"="+setting.Value)
		}
	}
	return flags
}

var (
	play       = testkit.Command
	check      = testkit.Check
	that       = testkit.That
	errOf      = testkit.ErrOf
	noErr      = testkit.NoErr
	wantErr    = testkit.WantErr
	contains   = testkit.Contains
	eventually = testkit.Eventually
	exists     = testkit.Exists
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

// run runs a command to its end, and returns its exit code and all it said.
func run(t *testing.T, name string, args ...string) (code int, output string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return code, string(bytes.TrimSpace(out))
}

// background starts a command that is killed when the test ends.
func background(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// sharing has a File acquire its lock for a reader.
func sharing(f lock.File) lock.File {
	f.Shared = true
	return f
}
