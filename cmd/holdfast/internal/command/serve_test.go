package command

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/monitor"
	"github.com/holdfast-go/holdfast/platform"
)

// startServe starts a server on a free port, and returns its address.
func startServe(t *testing.T, args ...string) (p *process, at string) {
	t.Helper()
	p = start(t, append([]string{"serve"}, args...)...)
	if !p.lines.Scan() {
		t.Fatalf("it did not say where it listens, but:\n%s", p.output())
	}
	at, ok := strings.CutPrefix(p.lines.Text(), "listening on ")
	if !ok {
		t.Fatalf("it says %q", p.lines.Text())
	}
	return p, at
}

// get asks a server under the name of a host; "" is that of the address.
func get(t *testing.T, at, host string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequest("GET", at, nil)
	testkit.Check(t, err)
	request.Host = host
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	testkit.Check(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	testkit.Check(t, err)
	return answer.StatusCode, string(text)
}

// locksAt waits until the report is as it should be.
func locksAt(t *testing.T, at string, ok func(monitor.Report) bool) (r monitor.Report) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		code, body := get(t, at+"api/advisory-locks", "")
		r = monitor.Report{}
		if err := json.Unmarshal([]byte(body), &r); err != nil || code != http.StatusOK {
			t.Fatalf("%d, %v: %s", code, err, body)
		}
		if ok(r) {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("the report stays %s", body)
		}
	}
}

func TestServe(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, sub := range []string{"a/b", "free"} {
		testkit.Check(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	holder := holdLock(t, filepath.Join(dir, "held"))
	dieHolding(t, filepath.Join(dir, "a", "b", "dead.lock"))
	wantCode(t, exitOK, append([]string{"run", filepath.Join(dir, "free", "free.lock"), "--"}, role(t, "exit", "0")...)...)
	write(t, filepath.Join(other, "far.lock"), foreign)
	p, at := startServe(t, dir, other)

	if code, body := get(t, at, ""); code != http.StatusOK || !strings.Contains(body, "<!doctype html>") {
		t.Errorf("the page: %d %.200s", code, body)
	}
	r := locksAt(t, at, func(monitor.Report) bool { return true })
	if r.Total != 3 || len(r.Engines) != 2 || r.Engines[0].Name != dir || r.Engines[1].Name != other {
		t.Fatalf("the report is %+v", r)
	}
	for i, want := range []struct {
		engine, space, name string
		state               evidence.State
		app                 string
	}{
		{dir, "a/b", "dead.lock", "dead", "the holder"},
		{dir, ".", "held", "held", "the holder"},
		{other, ".", "far.lock", "unknown", "far away"},
	} {
		l := r.Locks[i]
		if l.Engine != want.engine || l.Namespace != want.space || l.EntityID != want.name || l.State != want.state ||
			!l.Granted || *l.ApplicationName != want.app || *l.Mode != "exclusive" || l.Evidence == "" || l.Duration == nil {
			t.Errorf("lock %d is %+v, want %+v", i, l, want)
		}
	}
	if pid := *r.Locks[1].PID; pid != holder.cmd.Process.Pid {
		t.Errorf("the holder's pid is %d, want %d", pid, holder.cmd.Process.Pid)
	}

	// What is released goes, and so does a folder, which hides nothing of the others.
	holder.finish()
	locksAt(t, at, func(r monitor.Report) bool { return r.Total == 2 })
	testkit.Check(t, os.Rename(other, other+".gone"))
	r = locksAt(t, at, func(r monitor.Report) bool { return r.Total == 1 })
	if r.Engines[0].Error != nil || r.Engines[1].Error == nil {
		t.Errorf("of the folders it says %+v", r.Engines)
	}

	if runtime.GOOS == "windows" {
		return // nothing ends it gently there but a console
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code, rest, stderr := p.finish(); code != exitOK || rest+stderr != "" {
		t.Errorf("SIGTERM: %d %s%s", code, rest, stderr)
	}
}

// TestServe_Schema: of one lock, status, list and the server say the same by the same
// names; and what is needed to break it is among that.
func TestServe_Schema(t *testing.T) {
	dir := t.TempDir()
	holdLock(t, filepath.Join(dir, "held.lock"))
	dieHolding(t, filepath.Join(dir, "dead.lock"))
	far := filepath.Join(dir, "far.lock")
	write(t, far, foreign)
	_, at := startServe(t, dir)
	_, body := get(t, at+"api/advisory-locks", "")
	var report struct{ Locks []map[string]any }
	if err := json.Unmarshal([]byte(body), &report); err != nil || len(report.Locks) != 3 {
		t.Fatalf("%v in %s", err, body)
	}
	listed, _ := wantCode(t, exitOK, "list", "--json", dir)
	for i, line := range strings.Split(strings.TrimSpace(listed), "\n") {
		row := report.Locks[i]
		_, one, _ := holdfast(t, "status", "--json", row["path"].(string))
		if one != line+"\n" {
			t.Errorf("list says %s\nstatus says %s", line, one)
		}
		var status map[string]any
		testkit.Check(t, json.Unmarshal([]byte(line), &status))
		for name, want := range status {
			if !reflect.DeepEqual(row[name], want) {
				t.Errorf("%s is %v to status, and %v to the server", name, want, row[name])
			}
		}
		for _, name := range []string{"pid", "application_name", "state", "query_start", "namespace", "entity_id", "mode", "granted", "duration"} {
			if row[name] == nil {
				t.Errorf("the agent service's field %s is %v in %v", name, row[name], row)
			}
		}
	}
	row := report.Locks[1]
	nonce := row["holder"].(map[string]any)["nonce"].(string)
	word, _ := shellWord(far)
	if next := row["next"].([]any); row["path"] != far || next[len(next)-1] != "  holdfast break --force "+nonce+" "+word {
		t.Errorf("of what can't be told it says %v", row)
	}
	wantCode(t, exitOK, "break", "--force", nonce, row["path"].(string))
	wantFile(t, far, false)
}

func TestServe_Waiter(t *testing.T) {
	if _, err := platform.ListKernelLocks(); err != nil {
		t.Skip("needs a list of the kernel's locks, to see who waits: ", err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "l.lock")
	holder := holdLock(t, path)
	waiter := start(t, append([]string{"run", path, "--"}, role(t, "exit", "0")...)...)
	_, at := startServe(t, dir)
	r := locksAt(t, at, func(r monitor.Report) bool { return r.Total == 2 })
	w := r.Locks[1]
	if w.Path != path || len(w.Next) == 0 || w.Granted || *w.PID != waiter.cmd.Process.Pid || len(w.BlockedBy) != 1 || w.BlockedBy[0] != holder.cmd.Process.Pid || w.EntityID != "l.lock" {
		t.Errorf("who waits is %+v", w)
	}
	holder.finish()
	locksAt(t, at, func(r monitor.Report) bool { return r.Total == 0 })
}

// TestServe_Host: a page from elsewhere whose own name leads here gets nothing.
func TestServe_Host(t *testing.T) {
	_, at := startServe(t, t.TempDir())
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "LOCALHOST:1": 200, "127.0.0.1": 200, "127.9.9.9:80": 200, "[::1]": 200, "[::1]:8420": 200,
		"evil.example": 403, "evil.example:80": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
		"0.0.0.0": 403, "10.0.0.1": 403, "[::ffff:10.0.0.1]": 403, "localhost.": 403, "[": 403,
	} {
		for _, path := range []string{"", "api/advisory-locks", "x"} {
			want := want
			if path == "x" && want == 200 {
				want = 404
			}
			if code, body := get(t, at+path, host); code != want {
				t.Errorf("Host %q, /%s: %d, want %d: %.100s", host, path, code, want, body)
			}
		}
	}
}

func TestServe_Address(t *testing.T) {
	dir := t.TempDir()
	if p, at := startServe(t, "--addr", "localhost:0", dir); p.output() != "" {
		t.Errorf("on %s it warns: %s", at, p.output())
	} else if code, _ := get(t, at, "evil.example"); code != http.StatusForbidden {
		t.Errorf("Host evil.example: %d", code)
	}

	p := start(t, "serve", "--json", "--addr", "0.0.0.0:0", dir)
	p.await("anyone who can reach")
	if !p.lines.Scan() {
		t.Fatal(p.output())
	}
	var said struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(p.lines.Bytes(), &said); err != nil {
		t.Fatalf("%v in %s", err, p.lines.Bytes())
	}
	u, err := url.Parse(said.URL)
	testkit.Check(t, err)
	if ip := net.ParseIP(u.Hostname()); ip.IsUnspecified() {
		t.Errorf("%s is no address that one can go to from elsewhere", said.URL)
	}
	if code, _ := get(t, said.URL, ""); code != http.StatusOK {
		t.Errorf("at %s, which it says, it answers %d", said.URL, code)
	}
	if code, _ := get(t, "http://127.0.0.1:"+u.Port()+"/", "monitor.example"); code != http.StatusOK {
		t.Errorf("where it is meant to be reached from elsewhere, it answers %d", code)
	}
}

// TestServe_Twice: a folder counts once, by whatever name, and as a part of another.
func TestServe_Twice(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	testkit.Check(t, os.Mkdir(sub, 0o700))
	write(t, filepath.Join(sub, "far.lock"), foreign)
	other := filepath.Join(t.TempDir(), "sub") // which only begins alike
	testkit.Check(t, os.Mkdir(other, 0o700))
	dirs := []string{sub, dir, dir + "/", other, filepath.Join(dir, "sub", "..")}
	if link := filepath.Join(t.TempDir(), "link"); os.Symlink(dir, link) == nil {
		dirs = append(dirs, link)
	}
	_, at := startServe(t, dirs...)
	r := locksAt(t, at, func(monitor.Report) bool { return true })
	if r.Total != 1 || len(r.Engines) != 2 || r.Engines[0].Name != dir || r.Engines[1].Name != other {
		t.Errorf("the report is %+v", r)
	}
}

// TestServe_Taken: an address that another program has is told at once.
func TestServe_Taken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	defer taken.Close()
	stdout, stderr := wantCode(t, exitError, "serve", "--addr", taken.Addr().String(), t.TempDir())
	if stdout != "" {
		t.Errorf("it says %q", stdout)
	}
	wantText(t, stderr, taken.Addr().String())
}

// TestServe_Output: an address that could not be told is no reason to go on.
func TestServe_Output(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("needs /dev/full")
	} else if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var said strings.Builder
	a := &app{stdout: full, stderr: &said}
	if code := a.main([]string{"serve", t.TempDir()}); code != exitError {
		t.Errorf("exit code %d", code)
	}
	wantText(t, said.String(), "space left")
}
