//go:build unix

package command

import (
	"context"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// socketPath is one short enough for a socket; the names of tests are not.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf")
	testkit.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	if len(path) > 100 {
		t.Skip("needs a shorter TMPDIR, to have a socket in it: ", path)
	}
	return path
}

// startSocket starts a server at a socket, and waits until it listens.
func startSocket(t *testing.T, path, dir string) *process {
	t.Helper()
	p, at := startServe(t, "--addr", "unix:"+path, dir)
	if at != "unix:"+path {
		t.Fatalf("it listens on %s, want unix:%s", at, path)
	}
	return p
}

// wantAnswer asks through a socket, as whoever.
func wantAnswer(t *testing.T, path string) {
	t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	answer, err := client.Get("http://any.example/api/advisory-locks")
	testkit.Check(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// wantNothingBeside: what a server has made beside its socket, and the socket, is gone.
func wantNothingBeside(t *testing.T, path string) {
	t.Helper()
	left, err := filepath.Glob(path + "*")
	testkit.Check(t, err)
	if len(left) > 0 {
		t.Errorf("there is left %v", left)
	}
}

func TestServe_Socket(t *testing.T) {
	path, dir := socketPath(t), t.TempDir()
	mask := syscall.Umask(0) // so that whoever forgets the mode lets everybody in
	p := startSocket(t, path, dir)
	syscall.Umask(mask)
	info, err := os.Lstat(path)
	testkit.Check(t, err)
	if info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
	wantAnswer(t, path)

	// A living server is left alone.
	_, stderr := wantCode(t, exitError, "serve", "--addr", "unix:"+path, dir)
	wantText(t, stderr, "a server listens at "+path, "holdfast serve", "end that process")
	wantAnswer(t, path)
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code, rest, stderr := p.finish(); code != exitOK || rest+stderr != "" {
		t.Errorf("SIGTERM: %d %s%s", code, rest, stderr)
	}
	wantNothingBeside(t, path)
}

// TestServe_SocketOfTheDead: it is replaced.
func TestServe_SocketOfTheDead(t *testing.T) {
	path, dir := socketPath(t), t.TempDir()
	p := startSocket(t, path, dir)
	p.cmd.Process.Kill()
	p.cmd.Wait()
	wantFile(t, path, true)
	p = startSocket(t, path, dir)
	wantAnswer(t, path)
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.finish()
	wantNothingBeside(t, path)
}

// TestServe_SocketOfOthers: what is not ours is neither replaced nor, at the end, removed.
func TestServe_SocketOfOthers(t *testing.T) {
	path, dir := socketPath(t), t.TempDir()
	refused := func(hint string) {
		t.Helper()
		before, err := os.Lstat(path)
		testkit.Check(t, err)
		_, stderr := wantCode(t, exitError, "serve", "--addr", "unix:"+path, dir)
		wantText(t, stderr, path, hint)
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: it is another file: %v", hint, err)
		}
		if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
			t.Errorf("%s: there are %v, %v", hint, left, err)
		}
	}
	write(t, path, "mine")
	refused("no socket")
	testkit.Check(t, os.Remove(path))
	other, err := net.Listen("unix", path)
	testkit.Check(t, err)
	refused("another program")
	other.Close()

	long := filepath.Join(t.TempDir(), strings.Repeat("l", 120))
	_, stderr := wantCode(t, exitError, "serve", "--addr", "unix:"+long, dir)
	wantText(t, stderr, "some 100 bytes")
	wantNothingBeside(t, long)

	p := startSocket(t, path, dir)
	testkit.Check(t, os.Remove(path))
	write(t, path, "mine")
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.finish()
	wantFile(t, path, true)
}

func TestServe_SocketJSON(t *testing.T) {
	path := socketPath(t)
	p := start(t, "serve", "--json", "--addr", "unix:"+path, t.TempDir())
	if !p.lines.Scan() {
		t.Fatal(p.output())
	}
	var said map[string]string
	if err := json.Unmarshal(p.lines.Bytes(), &said); err != nil || len(said) != 2 || said["url"] != "http://localhost/" || said["socket"] != path {
		t.Errorf("it says %s: %v", p.lines.Bytes(), err)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.finish()
}
