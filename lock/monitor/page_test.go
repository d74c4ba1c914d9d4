package monitor_test

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock/monitor"
)

func TestMethodsAndPaths(t *testing.T) {
	h := monitor.New()
	for _, path := range []string{"/", api} {
		got, head := ask(h, "GET", path), ask(h, "HEAD", path)
		that(t, got.Code == http.StatusOK && head.Code == http.StatusOK, "%s: GET %d, HEAD %d", path, got.Code, head.Code)
		if n := got.Header().Get("Content-Length"); n != strconv.Itoa(got.Body.Len()) || head.Body.Len() != 0 {
			t.Errorf("%s: length %s of %d; HEAD has %d", path, n, got.Body.Len(), head.Body.Len())
		}
		if a, b := got.Header().Get("Content-Type"), head.Header().Get("Content-Type"); a != b || !strings.HasSuffix(a, "; charset=utf-8") {
			t.Errorf("%s: GET is %q, HEAD %q", path, a, b)
		}
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get"} {
			if w := ask(h, method, path); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
	}
	for _, path := range []string{"/x", "/api", "/api/", api + "/", "/index.html", "//", "/api/../", "/favicon.ico", "/%00"} {
		equal(t, ask(h, "GET", path).Code, http.StatusNotFound, path)
	}
	equal(t, ask(h, "GET", "/?q=1").Code, http.StatusOK, "a query leads to")
	equal(t, ask(http.StripPrefix("/locks", h), "GET", "/locks"+api).Code, http.StatusOK, "below a prefix")
}

func TestHeaders(t *testing.T) {
	for _, path := range []string{"/", api, "/missing"} {
		header := ask(monitor.New(), "GET", path).Header()
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			equal(t, header.Get(name), want, path, name)
		}
		policy := header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none';", "connect-src 'self';", "script-src 'sha256-", "style-src 'sha256-", "frame-ancestors 'none'"} {
			that(t, strings.Contains(policy, part), "%s: %q is missing in %q", path, part, policy)
		}
		if strings.Contains(policy, "unsafe") || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: too much is allowed: %v", path, header)
		}
	}
}

// TestPage_Alone: the page names no other resource, and has nothing in it that would
// read a text as HTML or code. That it works, a browser must tell.
func TestPage_Alone(t *testing.T) {
	page := must(os.ReadFile("page.html"))(t)
	equal(t, ask(monitor.New(), "GET", "/").Body.String(), string(page), "another page is served")
	forbidden := regexp.MustCompile(`(?i)https?:|//[a-z]|\bsrc=|@import|url\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\bstyle=|\bon[a-z]+="`)
	if found := forbidden.FindAll(page, -1); found != nil {
		t.Errorf("the page has %q", found)
	}
}
