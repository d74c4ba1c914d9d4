//go:build unix

package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

// sessions gives a test a folder for sockets, whose path is short enough, and a lock.
func sessions(t *testing.T) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf")
	testkit.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if len(sessionDirs()[0]) > maxSocketPath-30 {
		t.Skip("needs a shorter TMPDIR, to have sockets in it: ", dir)
	}
	return filepath.Join(t.TempDir(), "a.lock")
}

// wantUnreachable: there is no socket of a session.
func wantUnreachable(t *testing.T, nonce string) {
	t.Helper()
	wantFile(t, filepath.Join(sessionDirs()[0], nonce), false)
}

// TestHold_KeeperEnds: a keeper that is killed leaves a lock that the next one takes over; one
// that is told to end releases it.
func TestHold_KeeperEnds(t *testing.T) {
	path := sessions(t)
	s := begin(t, path)
	testkit.Check(t, syscall.Kill(s.KeeperPID, syscall.SIGKILL))
	wantExit(t, s.keeper)
	wantFile(t, filepath.Join(sessionDirs()[0], s.Nonce), true)
	_, stderr := wantCode(t, exitEnded, "renew", path, s.Nonce)
	wantText(t, stderr, "this session has ended", "dead")
	s.wantEnded()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s = begin(t, path)
		testkit.Check(t, syscall.Kill(s.KeeperPID, sig))
		wantExit(t, s.keeper)
		wantFile(t, path, false)
		s.wantEnded()
	}
}

// TestHold_Waits: in line, as run does; and a caller who gives up leaves nothing behind.
func TestHold_Waits(t *testing.T) {
	path := sessions(t)
	holder := holdLock(t, path)
	_, stderr := wantCode(t, exitNotHad, "hold", "-timeout", "20ms", path)
	wantText(t, stderr, "still locked after 20ms; no session was begun", "the holder")
	p := start(t, "hold", path)
	p.await("waiting for " + path)
	p.await("pid " + holder.pid())
	testkit.Check(t, p.cmd.Process.Signal(syscall.SIGINT))
	code, stdout, stderr := p.finish()
	if code != exitSignal+int(syscall.SIGINT) || stdout != "" {
		t.Errorf("exit code %d, and it printed %s", code, stdout)
	}
	wantText(t, stderr, "stopped waiting (interrupt)", "no session was begun")
	p = start(t, "hold", path)
	p.await("waiting for " + path)
	holder.finish()
	p.lines.Scan()
	s := reported(t, p.lines.Text())
	if code, _, _ := p.finish(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	s.wantHeld()
	wantCode(t, exitOK, "release", path, s.Nonce)
	s.wantEnded()
}

// TestHold_NoFileOfTheCallers: whoever waits for the end of hold's output does not wait for
// the session's.
func TestHold_NoFileOfTheCallers(t *testing.T) {
	path := sessions(t)
	r, w, err := os.Pipe()
	testkit.Check(t, err)
	defer r.Close()
	cmd := child(t, "hold", path)
	cmd.ExtraFiles = []*os.File{w}
	p := startCommand(t, cmd)
	w.Close()
	code, stdout, _ := p.finish() // reads both outputs to their ends
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	s := reported(t, stdout)
	if n, err := r.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("read something")
	}
	s.wantHeld()
	wantCode(t, exitOK, "release", path, s.Nonce)
	s.wantEnded()
}

// TestHold_Unprinted: a session of which the caller has not heard is none.
func TestHold_Unprinted(t *testing.T) {
	path := sessions(t)
	r, w, err := os.Pipe()
	testkit.Check(t, err)
	r.Close()
	cmd := child(t, "hold", path)
	cmd.Stdout = w
	out, err := cmd.StderrPipe()
	testkit.Check(t, err)
	testkit.Check(t, cmd.Start())
	w.Close()
	said := make([]byte, 1000)
	n, _ := out.Read(said)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitError {
		t.Errorf("exit code %d, want %d", code, exitError)
	}
	wantText(t, string(said[:n]), "writing the output", "given up again")
	wantCode(t, exitOK, "status", path)
	if left := testkit.Names(t, sessionDirs()[0]); left != "" {
		t.Error("there is a socket ", left)
	}
}

// TestHold_SocketFolder: sockets are nowhere but where only their user can reach them.
func TestHold_SocketFolder(t *testing.T) {
	path := sessions(t)
	dir := sessionDirs()[0]
	refused := func(hint string) {
		t.Helper()
		_, stderr := wantCode(t, exitError, "hold", path)
		wantText(t, stderr, dir, hint)
		wantFile(t, path+".flock", false)
		_, stderr = wantCode(t, exitError, "release", path, "N")
		wantText(t, stderr, dir, hint)
	}
	testkit.Check(t, os.Mkdir(dir, 0o700))
	testkit.Check(t, os.Chmod(dir, 0o770))
	refused("open to other users")
	testkit.Check(t, os.Remove(dir))
	testkit.Check(t, os.Symlink(t.TempDir(), dir))
	refused("no folder")
	testkit.Check(t, os.Remove(dir))
	defer syscall.Umask(syscall.Umask(0))
	s := begin(t, path)
	for at, want := range map[string]string{dir: "drwx------", filepath.Join(dir, s.Nonce): "Srw-------"} {
		if info, err := os.Lstat(at); err != nil || info.Mode().String() != want {
			t.Errorf("%s: %v %v, want %s", at, info.Mode(), err, want)
		}
	}
	wantCode(t, exitOK, "release", path, s.Nonce)
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), strings.Repeat("x", 100)))
	testkit.Check(t, os.Mkdir(os.Getenv("TMPDIR"), 0o700))
	_, stderr := wantCode(t, exitError, "hold", path)
	wantText(t, stderr, "takes too many")
}

// TestHold_SocketElsewhere: a session that can't be reached is not taken for one that has
// ended.
func TestHold_SocketElsewhere(t *testing.T) {
	path := sessions(t)
	s := begin(t, path)
	here := os.Getenv("XDG_RUNTIME_DIR")
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	_, stderr := wantCode(t, exitError, "release", path, s.Nonce)
	wantText(t, stderr, "can't be reached", "pid "+strconv.Itoa(s.KeeperPID), "XDG_RUNTIME_DIR")
	t.Setenv("XDG_RUNTIME_DIR", here)
	s.wantHeld()
	wantCode(t, exitOK, "release", path, s.Nonce)
	s.wantEnded()
}

// TestHold_SocketBeside: a folder that is no place for sockets does not hide those in the other.
func TestHold_SocketBeside(t *testing.T) {
	path := sessions(t)
	base := os.Getenv("XDG_RUNTIME_DIR")
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", base)
	s := begin(t, path)
	open := filepath.Join(base, "open")
	testkit.Check(t, os.MkdirAll(filepath.Join(open, "holdfast"), 0o700))
	testkit.Check(t, os.Chmod(filepath.Join(open, "holdfast"), 0o755))
	long := filepath.Join(base, strings.Repeat("x", 100))
	testkit.Check(t, os.MkdirAll(filepath.Join(long, "holdfast"), 0o700))
	for _, dir := range []string{open, long} {
		t.Setenv("XDG_RUNTIME_DIR", dir)
		wantCode(t, exitOK, "renew", path, s.Nonce)
	}
	wantCode(t, exitOK, "release", path, s.Nonce)
	t.Setenv("XDG_RUNTIME_DIR", "")
	s.wantEnded()
}

// TestHold_Contention: sessions of several shells take turns.
func TestHold_Contention(t *testing.T) {
	path := sessions(t)
	exe, err := os.Executable()
	testkit.Check(t, err)
	const script = `
for i in 1 2 3 4 5; do
	eval "$("$0" hold -sh "$1")" || exit 1
	mkdir "$1.inside" || exit 2
	rmdir "$1.inside" || exit 3
	"$0" release "$HOLDFAST_LOCK" "$HOLDFAST_NONCE" || exit 4
	echo "$HOLDFAST_FENCE $HOLDFAST_KEEPER"
done`
	env := child(t).Env
	var shells sync.WaitGroup
	var mu sync.Mutex
	fences := map[string]bool{}
	for range 3 {
		shells.Go(func() {
			cmd := exec.Command("sh", "-c", script, exe, path)
			cmd.Env = env
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			for line := range strings.Lines(string(out)) {
				fence, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
				fences[fence] = true
				if p, err := strconv.Atoi(pid); err != nil || p <= 0 {
					t.Error(line)
				} else {
					testkit.Eventually(t, "keeper "+pid+" ends", func() bool { return platform.Probe(platform.Process{PID: p}) == platform.Gone })
				}
			}
		})
	}
	shells.Wait()
	if len(fences) != 15 {
		t.Errorf("%d fences, want 15", len(fences))
	}
	wantCode(t, exitOK, "status", path)
}
