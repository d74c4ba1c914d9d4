package monitor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/monitor"
)

// askWith asks with one header.
func askWith(h http.Handler, method, path, name, value string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set(name, value)
	h.ServeHTTP(w, r)
	return w
}

// TestCompressed: what many locks say of themselves is much alike.
func TestCompressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that the time stands still
		entries := make([]lock.Status, 1000)
		for i := range entries {
			entries[i] = held(fmt.Sprint(i), i+1)
		}
		h := monitor.New(monitor.Engine{Name: "e", Lister: of(entries...)})
		for _, path := range []string{"/", api} {
			plain := ask(h, "GET", path)
			if plain.Header().Get("Content-Encoding") != "" || plain.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: %v", path, plain.Header())
			}
			for accept, want := range map[string]bool{
				"gzip": true, "GZIP": true, "deflate, gzip;q=0.5, br": true, "br,gzip": true, "gzip; q=1": true,
				"": false, "br": false, "gzip;q=0": false, "gzip; q=0.0": false, "xgzip": false, "gzip;q=x": false,
			} {
				got, head := askWith(h, "GET", path, "Accept-Encoding", accept), askWith(h, "HEAD", path, "Accept-Encoding", accept)
				if (got.Header().Get("Content-Encoding") == "gzip") != want {
					t.Errorf("%s, accepting %q: encoded as %q", path, accept, got.Header().Get("Content-Encoding"))
					continue
				}
				n := got.Header().Get("Content-Length")
				if n != strconv.Itoa(got.Body.Len()) || n != head.Header().Get("Content-Length") || head.Body.Len() != 0 {
					t.Errorf("%s, accepting %q: length %s of %d; HEAD says %v", path, accept, n, got.Body.Len(), head.Header())
				}
				var body io.Reader = got.Body
				if want {
					if got.Body.Len() > plain.Body.Len()/2 {
						t.Errorf("%s: %d bytes became %d", path, plain.Body.Len(), got.Body.Len())
					}
					var err error
					if body, err = gzip.NewReader(body); err != nil {
						t.Fatal(err)
					}
				}
				if text, err := io.ReadAll(body); err != nil || !bytes.Equal(text, plain.Body.Bytes()) {
					t.Errorf("%s, accepting %q: another text, %v", path, accept, err)
				}
			}
		}
	})
}

// TestNotModified: as long as nothing but the time has changed.
func TestNotModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := []lock.Status{held("a", 1), held("b", 2)}
		var failure error
		h := monitor.New(monitor.Engine{Name: "e", Lister: lister(func(ctx context.Context, yield func(lock.Status, error) bool) {
			if of(entries...)(ctx, yield); failure != nil {
				yield(lock.Status{}, failure)
			}
		})})
		tag := ask(h, "GET", api).Header().Get("ETag")
		time.Sleep(time.Hour)
		for _, given := range []string{tag, tag[len("W/"):], `"x", ` + tag, "*"} {
			for _, method := range []string{"GET", "HEAD"} {
				w := askWith(h, method, api, "If-None-Match", given)
				if w.Code != http.StatusNotModified || w.Body.Len() != 0 || w.Header().Get("ETag") != tag || w.Header().Get("Cache-Control") != "no-store" {
					t.Errorf("%s with %s: %d %v", method, given, w.Code, w.Header())
				}
			}
		}
		for _, given := range []string{"", `"x"`, tag[:len(tag)-2] + `"`} {
			if w := askWith(h, "GET", api, "If-None-Match", given); w.Code != http.StatusOK || w.Body.Len() == 0 {
				t.Errorf("with %q: %d", given, w.Code)
			}
		}
		equal(t, askWith(h, "GET", "/", "If-None-Match", tag).Code, http.StatusOK, "the page")
		seen := map[string]string{tag: "the first"}
		for what, change := range map[string]func(){
			"an engine fails":  func() { failure = fmt.Errorf("gone") },
			"one more":         func() { entries = append(entries, held("c", 3)) },
			"another evidence": func() { entries[0].Evidence = evidence.KernelLockHeld },
			"another since":    func() { entries[1].Info = &evidence.Claim{PID: 2, CreatedAt: time.Now()} },
			"one waits":        func() { entries[0].Waiters = []lock.Process{{PID: 9}} },
		} {
			change()
			w := askWith(h, "GET", api, "If-None-Match", tag)
			now := w.Header().Get("ETag")
			if w.Code != http.StatusOK || seen[now] != "" {
				t.Errorf("%s: %d, with the tag of %q", what, w.Code, seen[now])
			}
			seen[now] = what
		}
	})
}
