package monitor_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/monitor"
)

// gzipWeight finds what a client says of gzip first, and its weight.
var gzipWeight = regexp.MustCompile(`(?i)(?:^|,)[ \t]*gzip[ ]*(?:;[ ]*q[ ]*=[ ]*([^, ]*))?`)

// FuzzRequest: whatever a client sends, it is answered by what it asked for, whole, in a form
// that it takes, or by a reason why not; and names are said as they are.
func FuzzRequest(f *testing.F) {
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n",
		"GET /api/advisory-locks HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br;q=1, GZIP ;q=0.5\r\n\r\n",
		"GET /api/advisory-locks HTTP/1.0\r\nAccept-Encoding: gzip;q=0\r\nIf-None-Match: W/\"x\", \"y\"\r\n\r\n",
		"GET /api/advisory-locks HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\n\r\n", "POST /api/advisory-locks HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "GET //api/advisory-locks HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://x/api/advisory-locks HTTP/1.1\r\nHost: y\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /api/advisory-locks?x=%ff HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip;q=NaN\r\n\r\n",
	} {
		f.Add([]byte(request), "deploy", "push")
	}
	f.Add([]byte("GET /api/advisory-locks HTTP/1.1\r\nHost: x\r\n\r\n"), "\u202e\x1b[31m", "\xff\x00</script>")
	f.Fuzz(func(t *testing.T, raw []byte, name, cmd string) {
		read := func() *http.Request {
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
			if err != nil {
				return nil
			}
			return r
		}
		if read() == nil || len(raw) > 8<<10 {
			return
		}
		entry := held(name, 7)
		entry.Info.Cmd = cmd
		h := monitor.New(monitor.Engine{Name: "files", Lister: of(entry)})
		r := read()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		header, body := w.Header(), w.Body.Bytes()
		isPage, isAPI := r.URL.Path == "/", r.URL.Path == api
		reads := r.Method == "GET" || r.Method == "HEAD"
		if header.Get("Content-Security-Policy") == "" || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", header)
		}
		want := []int{http.StatusOK}
		switch {
		case !isPage && !isAPI:
			want = []int{http.StatusNotFound}
		case !reads:
			want = []int{http.StatusMethodNotAllowed}
		case isAPI && r.Header.Get("If-None-Match") != "":
			want = append(want, http.StatusNotModified)
		}
		if !slices.Contains(want, w.Code) {
			t.Fatalf("%s %s: status %d, want %v", r.Method, r.URL.Path, w.Code, want)
		}
		if w.Code != http.StatusOK {
			return
		}
		if r.Method == "HEAD" {
			if len(body) > 0 {
				t.Errorf("%d bytes for HEAD", len(body))
			}
			return
		}
		switch header.Get("Content-Encoding") {
		case "gzip":
			takes := strings.Join(r.Header.Values("Accept-Encoding"), ",")
			if one := gzipWeight.FindStringSubmatch(takes); one == nil || one[1] != "" && strings.Trim(one[1], "0.") == "" {
				t.Errorf("compressed for who takes %q", takes)
			}
			z, err := gzip.NewReader(w.Body)
			if err == nil {
				body, err = io.ReadAll(z)
			}
			check(t, err)
		case "":
		default:
			t.Errorf("headers %v", header)
		}
		if isPage {
			that(t, bytes.Contains(body, []byte("</html>")), "the page is %q", body)
			return
		}
		var report monitor.Report
		check(t, json.Unmarshal(body, &report), "in", body)
		if bytes.ContainsFunc(body, func(r rune) bool { return r < ' ' && r != '\n' || r == '\u202e' || r == '<' }) {
			t.Errorf("a control character in %q", body)
		}
		if len(report.Locks) != 1 || report.Total != 1 || utf8.ValidString(name) && report.Locks[0].EntityID != name {
			t.Errorf("of %q, by %q: %s", name, cmd, body)
		}
		// Who has it already need not have it again, and only then.
		again := httptest.NewRequest("GET", api, nil)
		again.Header.Set("If-None-Match", header.Get("ETag"))
		w = httptest.NewRecorder()
		h.ServeHTTP(w, again)
		if w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("asked again with %s: status %d", header.Get("ETag"), w.Code)
		}
		entry.Info = &evidence.Claim{PID: 8, CreatedAt: entry.Info.CreatedAt}
		h = monitor.New(monitor.Engine{Name: "files", Lister: of(entry)})
		w = httptest.NewRecorder()
		h.ServeHTTP(w, again)
		equal(t, w.Code, http.StatusOK, "after a change: status")
	})
}
