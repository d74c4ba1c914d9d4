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
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// roleVar tells the test binary to play a part instead of running tests.
const roleVar = "HOLDFAST_TEST_ROLE"

var roles = map[string]func(args []string) error{
	"churn":      churn,
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
	if role := os.Getenv(roleVar); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
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
	return s.M.Run()
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

// play prepares the test binary for a role.
func play(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

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
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// eventually waits for a condition that is bound to come about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !comesAbout(condition) {
		t.Fatalf("never came about: %s", what)
	}
}

// comesAbout waits for a condition, and gives up when something must be wrong.
func comesAbout(condition func() bool) bool {
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
