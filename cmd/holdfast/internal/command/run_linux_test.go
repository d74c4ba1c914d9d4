package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestKilledRun: with holdfast, its command dies, and whoever waits goes ahead.
func TestKilledRun(t *testing.T) { // guards: W8
	path := filepath.Join(t.TempDir(), ".lock")
	first := start(t, runArgs(t, path, "stuck")...)
	first.expect("ready")
	next := start(t, runArgs(t, path, "hold")...)
	next.await("waiting for")
	first.cmd.Process.Kill()
	next.expect("ready")
	// The command has the same standard output: it ends only when both are gone.
	if code, _, _ := first.finish(); code != -1 {
		t.Errorf("the killed holdfast ended with %d", code)
	}
	if code, _, stderr := next.finish(); code != 0 {
		t.Errorf("the next one ended with %d: %s", code, stderr)
	}
}

// TestTerminalInterruptsOnce: a Ctrl-C goes to the whole foreground group. The
// command must not get it from holdfast a second time.
func TestTerminalInterruptsOnce(t *testing.T) {
	terminal, tty := openTerminal(t)
	cmd := child(t, runArgs(t, filepath.Join(t.TempDir(), ".lock"), "signals")...)
	cmd.ExtraFiles = []*os.File{tty}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	p := startCommand(t, cmd)
	p.expect("ready")
	for range 3 {
		if _, err := terminal.Write([]byte{3}); err != nil {
			t.Fatal(err)
		}
		p.expect("interrupt")
	}
	p.signal(syscall.SIGTERM) // handed on behind anything that was before it
	p.expect("terminated")
	if code, rest, _ := p.finish(); code != 9 || rest != "" {
		t.Errorf("exit code %d, and the command also got: %s", code, rest)
	}
}

// TestStopped: SIGTSTP stops the command and holdfast, and SIGCONT continues both.
func TestStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	cmd := child(t, runArgs(t, path, "pid")...)
	// A group of its own, whose parent is in another one of the same session: only so
	// does the kernel let SIGTSTP stop it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := startCommand(t, cmd)
	if !p.lines.Scan() {
		t.Fatal(p.output())
	}
	pids := []string{strconv.Itoa(cmd.Process.Pid), p.lines.Text()}
	for range 3 {
		p.signal(syscall.SIGTSTP)
		for _, pid := range pids {
			awaitState(t, pid, "T")
		}
		p.signal(syscall.SIGCONT)
		for _, pid := range pids {
			awaitState(t, pid, "RS")
		}
	}
	if code, _, stderr := p.finish(); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// awaitState waits until a process is in one of some states of proc(5).
func awaitState(t *testing.T, pid, states string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	testkit.Check(t, err)
	testkit.Eventually(t, "process "+pid+" comes to "+states, func() bool {
		return strings.ContainsRune(states, rune(testkit.State(number)))
	})
}

// TestTerminalStops: a Ctrl-Z stops both, once, as without holdfast.
func TestTerminalStops(t *testing.T) {
	terminal, tty := openTerminal(t)
	cmd := child(t, runArgs(t, filepath.Join(t.TempDir(), ".lock"), "signals")...)
	cmd.ExtraFiles = []*os.File{tty}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	p := startCommand(t, cmd)
	p.expect("ready")
	for range 3 {
		if _, err := terminal.Write([]byte{26}); err != nil {
			t.Fatal(err)
		}
		p.expect("stopped")
	}
	// The group is orphaned, so that nobody is stopped for good; and what came twice
	// would be seen before this.
	p.signal(syscall.SIGTERM)
	p.expect("terminated")
	if code, rest, _ := p.finish(); code != 9 || rest != "" {
		t.Errorf("exit code %d, and the command also got: %s", code, rest)
	}
}

// openTerminal returns a pseudo-terminal, from both sides.
func openTerminal(t *testing.T) (terminal, tty *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	testkit.Check(t, err)
	t.Cleanup(func() { terminal.Close() })
	var unlock, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	testkit.Check(t, err)
	t.Cleanup(func() { tty.Close() })
	return terminal, tty
}

// TestListGoesOn: what can't be read is told, and the rest is listed.
func TestListGoesOn(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "z.lock"), foreign)
	// A path that is too long for the kernel is a folder that not even root reads.
	root, err := os.OpenRoot(dir)
	testkit.Check(t, err)
	for range 20 {
		name := strings.Repeat("d", 250)
		testkit.Check(t, root.Mkdir(name, 0o700))
		deeper, err := root.OpenRoot(name)
		root.Close()
		testkit.Check(t, err)
		root = deeper
	}
	root.Close()
	stdout, stderr := wantCode(t, exitError, "list", dir)
	wantText(t, stdout, "far away", "1 lock: 0 held, 0 free, 0 dead, 1 unknown; 1 not read")
	wantText(t, stderr, "holdfast: ", "too long")
	stdout, _ = wantCode(t, exitError, "list", "--json", dir)
	wantText(t, stdout, "far away")
	stdout, _ = wantCode(t, exitError, "tidy", "-n", dir) // one is enough to fail
	wantText(t, stdout, "; 1 not read")
}
