package command

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// keeperOf finds the keeper that a hold has started. (Go's run-time starts a process as
// well, to find out whether it can have pidfds.)
func keeperOf(t *testing.T, hold int) (found platform.Process) {
	t.Helper()
	testkit.Eventually(t, "a keeper starts", func() bool {
		folders, err := os.ReadDir("/proc")
		testkit.Check(t, err)
		for _, folder := range folders {
			pid, err := strconv.Atoi(folder.Name())
			if err != nil {
				continue
			}
			if parent, _, ok := parentOf(pid); ok && parent == hold && slices.Contains(commandLine(pid), keeperName) {
				found, err = platform.Identify(pid)
				return err == nil
			}
		}
		return false
	})
	return found
}

// TestHold_KilledWaiting: a hold that is killed while it waits leaves no keeper, nobody in
// the queue, and no lock that is taken later.
func TestHold_KilledWaiting(t *testing.T) {
	path := sessions(t)
	holder := holdLock(t, path)
	for range 3 {
		p := start(t, "hold", path)
		keeper := keeperOf(t, p.cmd.Process.Pid)
		p.await("waiting for " + path)
		p.kill()
		wantExit(t, keeper)
	}
	status, err := lock.File{Path: path}.Inspect(t.Context())
	testkit.Check(t, err)
	if len(status.Waiters) > 0 {
		t.Errorf("there wait %v", status.Waiters)
	}
	holder.finish()
	wantCode(t, exitOK, "status", path)
}

// TestHold_KilledUnprinted: nor if that is between the keeper's report and its own.
func TestHold_KilledUnprinted(t *testing.T) {
	path := sessions(t)
	r, w, err := os.Pipe()
	testkit.Check(t, err)
	defer r.Close()
	fd := int(w.Fd())
	testkit.Check(t, syscall.SetNonblock(fd, true))
	for err == nil { // until it has no room
		_, err = syscall.Write(fd, make([]byte, 4096))
	}
	testkit.Check(t, syscall.SetNonblock(fd, false))
	cmd := child(t, "hold", path)
	cmd.Stdout = w
	testkit.Check(t, cmd.Start())
	w.Close()
	testkit.Eventually(t, "the lock is held", func() bool {
		status, err := lock.File{Path: path}.Inspect(t.Context())
		return err == nil && status.Info != nil && status.Info.OwnerPID > 0
	})
	keeper := keeperOf(t, cmd.Process.Pid)
	testkit.Check(t, cmd.Process.Kill())
	cmd.Wait()
	wantExit(t, keeper)
	wantCode(t, exitOK, "status", path)
}

// TestHold_Keeper: the keeper has nothing of its caller's: no file, terminal or folder.
func TestHold_Keeper(t *testing.T) {
	path := sessions(t)
	s := begin(t, path)
	proc := "/proc/" + strconv.Itoa(s.KeeperPID)
	if cwd, err := os.Readlink(proc + "/cwd"); err != nil || cwd != "/" {
		t.Errorf("its folder is %s (%v)", cwd, err)
	}
	fields := stat(s.KeeperPID)
	const session, terminal = 6 - 3, 7 - 3
	if fields[session] != strconv.Itoa(s.KeeperPID) || fields[terminal] != "0" {
		t.Errorf("its session is %s, its terminal %s", fields[session], fields[terminal])
	}
	ours := map[string]bool{}
	for _, pid := range []string{"self", strconv.Itoa(s.KeeperPID)} {
		files, err := filepath.Glob("/proc/" + pid + "/fd/*")
		testkit.Check(t, err)
		for _, file := range files {
			to, _ := os.Readlink(file)
			switch {
			case pid == "self":
				ours[to] = true
			case ours[to] && strings.ContainsAny(to, ":") && !strings.HasPrefix(to, "anon_inode:"):
				t.Errorf("its %s is also ours: %s", filepath.Base(file), to)
			}
		}
	}
	wantCode(t, exitOK, "release", path, s.Nonce)
	s.wantEnded()
}

// TestHold_Full: a disk that is full when the session is reported is told, and nothing held.
func TestHold_Full(t *testing.T) {
	path := sessions(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full, for output that can't be written: ", err)
	}
	defer full.Close()
	cmd := child(t, "hold", path)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &said
	cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != exitError {
		t.Errorf("exit code %d, want %d", code, exitError)
	}
	wantText(t, said.String(), "no space left", "given up again")
	wantCode(t, exitOK, "status", path)
}

// script runs a shell with holdfast as $0 and the lock as $1.
func script(t *testing.T, shell, text, path string, args ...string) (stdout, stderr string) {
	t.Helper()
	exe, err := os.Executable()
	testkit.Check(t, err)
	found, err := exec.LookPath(shell)
	if err != nil {
		t.Skip("needs "+shell+", to be the owner: ", err)
	}
	file := filepath.Join(t.TempDir(), "script")
	write(t, file, text)
	cmd := exec.Command(found, append([]string{file, exe, path}, args...)...)
	cmd.Dir = filepath.Dir(file)
	cmd.Env = child(t).Env
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", shell, err, out.String(), said.String())
	}
	return out.String(), said.String()
}

// TestHold_Eval: a shell that has begun a session by eval is its owner, and has what names
// the session; the lock is free when the shell has ended.
func TestHold_Eval(t *testing.T) {
	for _, shell := range []string{"dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			path := filepath.Join(filepath.Dir(sessions(t)), `it's "a" $(echo ran) \ `+"`lock`\n.")
			stdout, stderr := script(t, shell, `
set -e
eval "$("$1" hold --sh "$2")"
[ "$HOLDFAST_LOCK" = "$2" ] || echo "LOCK is $HOLDFAST_LOCK"
[ "$HOLDFAST_OWNER" = $$ ] || echo "OWNER is $HOLDFAST_OWNER and not $$"
[ "$(sh -c 'echo "$HOLDFAST_LOCK"')" = "$2" ] || echo "children don't find it"
"$1" run "$2" -- true 2>said && echo "runs beside itself"
grep -q "held by a session from which this process comes" said || cat said
"$1" status --json "$2" || :
"$1" run "$2"2 -- sh -c 'echo "[$HOLDFAST_NONCE]"'
echo $HOLDFAST_KEEPER $HOLDFAST_NONCE $HOLDFAST_FENCE
`, path)
			wantText(t, stdout, "\n[]\n") // the lock of the run is not the session's
			lines := strings.Split(strings.TrimSpace(strings.Replace(stdout, "[]\n", "", 1)), "\n")
			if len(lines) != 2 || stderr != "" {
				t.Fatalf("it says %s\n%s", stdout, stderr)
			}
			said := strings.Fields(lines[1])
			wantText(t, lines[0], `"holder":{"pid":`+said[0]+`,`, `"nonce":"`+said[1]+`"`)
			keeper, err := strconv.Atoi(said[0])
			if err != nil || len(said) != 3 {
				t.Fatal(lines[1])
			}
			s := &aSession{sessionReport: sessionReport{Path: path, Nonce: said[1]}, t: t, keeper: platform.Process{PID: keeper}}
			s.wantEnded()
		})
	}
}

// TestHold_EvalFails: the eval of a session that could not be had fails, with its exit code.
// (That of nothing would succeed.)
func TestHold_EvalFails(t *testing.T) {
	for _, shell := range []string{"dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			path := sessions(t)
			holder := holdLock(t, path)
			stdout, stderr := script(t, shell, `
eval "$("$1" hold --sh --timeout 0 "$2")" && echo went on
echo $?
eval "$("$1" hold --sh)"
echo $?
eval "$("$1" hold --sh=true --timeout 0 "$2")" && echo went on
echo $?
`, path)
			if stdout != "75\n64\n75\n" {
				t.Errorf("it says %s\n%s", stdout, stderr)
			}
			holder.finish()
		})
	}
}

// TestHold_EvalOfPart: a shell does not go on by the eval of a session whose owner is only a
// part of it, or another command, in $( ). bash has such a part for any redirection.
func TestHold_EvalOfPart(t *testing.T) {
	for _, shell := range []string{"dash", "bash"} {
		for name, text := range map[string]string{
			"redirection": `$("$1" hold --sh "$2" 2>said)`,
			"function":    `$(begin "$1" "$2")`,
			"command":     `$(timeout 60 "$1" hold --sh "$2")`,
		} {
			t.Run(shell+"/"+name, func(t *testing.T) {
				stdout, stderr := script(t, shell, `
begin() { "$1" hold --sh "$2"; true; }
eval "`+text+`" || { echo "not had"; exit 0; }
[ "$HOLDFAST_OWNER" = $$ ] && echo had || echo "went on without the lock"
`, sessions(t))
				if stdout != "had\n" && stdout != "not had\n" {
					t.Errorf("it %s\n%s", stdout, stderr)
				}
			})
		}
	}
}

// TestHold_OwnedByItself: hold is no owner, as it ends.
func TestHold_OwnedByItself(t *testing.T) {
	stdout, stderr := script(t, "sh", `sh -c 'exec "$0" hold --owner $$ "$1"' "$1" "$2"; echo $?`, sessions(t))
	wantText(t, stderr, "is this holdfast itself", "no session was begun")
	if stdout != "1\n" {
		t.Errorf("it says %s", stdout)
	}
}

// TestHold_Passing: an owner that is about to end is warned of, and no other.
func TestHold_Passing(t *testing.T) {
	for name, test := range map[string]struct{ text, warning string }{
		"script":     {`"$1" hold "$2"`, ""},
		"named":      {`sh -c '"$0" hold --owner $$ "$1"; true' "$1" "$2"`, ""},
		"sh -c":      {`sh -c '"$0" hold "$1"; true' "$1" "$2"`, "sh -c"},
		"sh -ec":     {`sh -ec '"$0" hold "$1"; true' "$1" "$2"`, "sh -c"},
		"part":       {`("$1" hold "$2"; true)`, "a part of the shell"},
		"in quotes":  {`echo "$("$1" hold "$2"; true)"`, "a part of the shell"},
		"xargs":      {`echo "$2" | xargs "$1" hold`, "xargs"},
		"with flags": {`sh -e "$3" "$1" "$2"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := sessions(t)
			inner := filepath.Join(t.TempDir(), "inner-c")
			write(t, inner, `"$1" hold "$2"`)
			if strings.Contains(test.text, "xargs") {
				if _, err := exec.LookPath("xargs"); err != nil {
					t.Skip("needs xargs, to be the owner")
				}
			}
			stdout, stderr := script(t, "sh", test.text, path, inner)
			switch {
			case test.warning == "" && stderr != "":
				t.Errorf("it said: %s", stderr)
			case test.warning != "":
				wantText(t, stderr, "warning: the owner is pid ", "seems to be about to end", test.warning, "--owner $$")
			}
			wantText(t, stdout, `"keeper_pid":`)
			wantCode(t, exitOK, append([]string{"run", "--timeout", patience.String(), path, "--"}, role(t, "exit", "0")...)...)
		})
	}
}
