//go:build unix

package command

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// TestHold_KeeperTold: a keeper that is told to end, and not by a release, releases the lock,
// but not as one whose work is done.
func TestHold_KeeperTold(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
		path := sessions(t)
		s := begin(t, path)
		testkit.Check(t, syscall.Kill(s.KeeperPID, sig))
		wantExit(t, s.keeper)
		wantFile(t, path, false)
		wantEnd(t, s, lock.EndDied, evidence.ToldToEnd, false)
	}
}

// TestHold_Closed: nobody could name a session whose report went nowhere. /dev/null is an
// output like others.
func TestHold_Closed(t *testing.T) {
	path := sessions(t)
	exe, err := os.Executable()
	testkit.Check(t, err)
	hold := func(redirection string) (stderr string, err error) {
		cmd := exec.Command("sh", "-c", `"$0" hold --owner "$2" "$1" `+redirection, exe, path, strconv.Itoa(os.Getpid()))
		cmd.Env = child(t).Env
		var said strings.Builder
		cmd.Stderr = &said
		err = cmd.Run()
		return said.String(), err
	}
	stderr, err := hold(">&-")
	if err == nil {
		t.Error("it began a session")
	}
	wantText(t, stderr, "standard output is closed", "no session was begun")
	wantFile(t, path+".flock", false) // nothing was taken
	if stderr, err := hold(">/dev/null"); err != nil {
		t.Error(err, stderr)
	}
	status, err := lock.File{Path: path}.Inspect(t.Context())
	testkit.Check(t, err)
	if status.Info == nil || status.Info.OwnerPID != os.Getpid() {
		t.Fatalf("there is no session: %+v", status)
	}
	wantCode(t, exitOK, "release", path, status.Info.Nonce)
}

// TestHold_Waits: in line, as run does; and a caller who gives up leaves nothing behind.
func TestHold_Waits(t *testing.T) {
	path := sessions(t)
	holder := holdLock(t, path)
	_, stderr := wantCode(t, exitNotHad, "hold", "--timeout", "20ms", path)
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
	dieHolding(t, path)
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
	stdout, _ := wantCode(t, exitOK, append([]string{"run", path, "--"}, role(t, "predecessor")...)...)
	wantText(t, stdout, `"cmd":"the holder"`, `"how":"died"`) // it hides nobody
}

// TestHold_Contention: sessions of several shells take turns.
func TestHold_Contention(t *testing.T) {
	path := sessions(t)
	exe, err := os.Executable()
	testkit.Check(t, err)
	const script = `
for i in 1 2 3 4 5; do
	eval "$("$0" hold --sh "$1")" || exit 1
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
