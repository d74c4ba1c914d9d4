//go:build unix

package command

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// signalsRole names each signal that it gets, and ends at SIGTERM. SIGURG is Go's own.
func signalsRole([]string) int {
	got := make(chan os.Signal, 64)
	signal.Notify(got)
	signal.Reset(syscall.SIGURG)
	fmt.Println("ready")
	time.AfterFunc(2*patience, func() { os.Exit(1) })
	for s := range got {
		fmt.Println(s)
		if s == syscall.SIGTERM {
			break
		}
	}
	return 9
}

// apart starts holdfast in a session of its own, so that the terminal of whoever
// runs the tests plays no part.
func apart(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := child(t, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return startCommand(t, cmd)
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func TestRunForwardsSignals(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	p := apart(t, runArgs(t, path, "signals")...)
	p.expect("ready")
	// Neither of these is handed on, nor ends holdfast: one that were would be seen
	// before the next one.
	ours := []syscall.Signal{syscall.SIGCHLD, syscall.SIGURG, syscall.SIGIO, syscall.SIGPIPE, syscall.SIGXFSZ}
	handedOn := []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGXCPU, syscall.SIGABRT}
	if runtime.GOOS == "linux" {
		handedOn = append(handedOn, 35, 37, 64) // real-time
	}
	for _, s := range append(handedOn, syscall.SIGTERM) {
		for _, s := range ours {
			p.signal(s)
		}
		p.signal(s)
		p.expect(s.String())
	}
	if code, _, stderr := p.finish(); code != 9 {
		t.Errorf("exit code %d, want the command's, 9: %s", code, stderr)
	}
	wantCode(t, exitOK, "status", path)
}

func TestRunTellsSignalThatKilledCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	wantCode(t, exitSignal+int(syscall.SIGKILL), runArgs(t, path, "killself")...)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		p := apart(t, runArgs(t, path, "stuck")...)
		p.expect("ready")
		p.signal(s)
		if code, _, stderr := p.finish(); code != exitSignal+int(s) {
			t.Errorf("%v: exit code %d, want %d: %s", s, code, exitSignal+int(s), stderr)
		}
		wantCode(t, exitOK, "status", path)
	}
}

// TestNohup: what was to be ignored stays so, for holdfast and for the command.
func TestNohup(t *testing.T) {
	p := child(t, runArgs(t, filepath.Join(t.TempDir(), ".lock"), "signals")...)
	nohup := exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`}, p.Args...)...)
	nohup.Env = p.Env
	q := startCommand(t, nohup)
	q.expect("ready")
	q.signal(syscall.SIGHUP)
	q.signal(syscall.SIGTERM)
	q.expect(syscall.SIGTERM.String())
}

func TestSignalEndsWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	holder := holdLock(t, path)
	before := snapshot(t, filepath.Dir(path))
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		p := apart(t, runArgs(t, path, "env")...)
		p.await("waiting for")
		p.signal(s)
		code, stdout, stderr := p.finish()
		if code != exitSignal+int(s) || stdout != "" {
			t.Errorf("%v: exit code %d, want %d, and no command: %q", s, code, exitSignal+int(s), stdout)
		}
		wantText(t, stderr, "stopped waiting")
	}
	// What is meant for the command, which does not run yet, ends nothing.
	p := apart(t, runArgs(t, path, "exit", "8")...)
	p.await("waiting for")
	for _, s := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGPIPE} { // harmless, should one reach it after all
		p.signal(s)
	}
	if after := snapshot(t, filepath.Dir(path)); after != before {
		t.Errorf("something was left behind:\n%s\nwas\n%s", after, before)
	}
	if code, _, _ := holder.finish(); code != 0 {
		t.Errorf("the holder ended with %d", code)
	}
	if code, _, stderr := p.finish(); code != 8 {
		t.Errorf("exit code %d, want the command's, 8: %s", code, stderr)
	}
}

// TestNobodyReadsTheMessages: they don't end us, nor a command that runs under the lock.
func TestNobodyReadsTheMessages(t *testing.T) {
	read, write, err := os.Pipe()
	testkit.Check(t, err)
	defer write.Close()
	read.Close()
	cmd := child(t, "run", filepath.Join(t.TempDir(), ".lock"), "--", "no-such-command-here")
	cmd.Stderr = write
	cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != exitNotFound {
		t.Errorf("%v, want exit code %d", cmd.ProcessState, exitNotFound)
	}
}

// snapshot describes all there is below a folder, the folder included.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
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
	})
	testkit.Check(t, err)
	return b.String()
}
