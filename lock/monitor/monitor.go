// Package monitor shows locks with their holders and waiters: as a page for people, and as
// JSON for programs, from any number of engines at once.
//
//	http.Handle("/locks/", http.StripPrefix("/locks", monitor.New(
//		monitor.Engine{Name: "files", Lister: lock.Dir{Path: "/var/lib/agents"}})))
//
// It only looks. Anybody that can reach it sees what can be read in lock files: pids, hosts,
// labels. To restrict that is up to the server. A server on the loopback address must check
// the Host header, as "holdfast serve" does: else a page from elsewhere can have its own name
// lead to it (DNS rebinding).
package monitor

import (
	"context"
	"iter"
	"net/http"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/internal/plainjson"
	"github.com/holdfast-go/holdfast/lock"
)

// Lister is what an engine must do to be shown; every lock.Locker is one. List must be fit
// to be called again and again, and should end when ctx does.
type Lister interface {
	List(ctx context.Context) iter.Seq2[lock.Status, error]
}

// Engine is one source of locks, and the name it is shown under.
type Engine struct {
	Name   string
	Lister Lister
	// Next, if set, says what a person can do about a lock that somebody has, in
	// lines; the page shows it.
	Next func(lock.Status) []string
}

// answerTime is how long an engine may take. One that takes longer is said to be out of
// reach, and what it has told so far is shown.
const answerTime = 5 * time.Second

// New returns a handler that serves the page at / and the JSON at /api/advisory-locks (see
// Report). The page asks for the JSON by a relative address. So it works below a prefix,
// too, if that ends with a slash.
//
// All engines are asked at the same time. One that fails, or does not answer within five
// seconds, hides nothing of the others: its error is in the report, and the status is still
// 200. Requests that come while an engine is being asked share the answer. So many watchers
// are no more work for it than one, and an engine that never answers holds up one
// goroutine, not one for each request.
//
// Both are compressed for clients that take gzip. The JSON has an entity tag, which changes
// only when more than the time has changed. Until then a request that gives it in
// If-None-Match is answered by 304.
//
// The handler may be used by several goroutines at once.
func New(engines ...Engine) http.Handler {
	host, _ := os.Hostname() // without it the page names none
	h := &handler{host: host}
	for _, e := range engines {
		h.engines = append(h.engines, &engine{Engine: e})
	}
	return h
}

type handler struct {
	host    string
	engines []*engine
}

// ServeHTTP answers GET and HEAD.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	path := r.URL.Path
	if path != "/" && path != "/api/advisory-locks" {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	header.Set("Vary", "Accept-Encoding")
	if path == "/" {
		header.Set("Content-Type", "text/html; charset=utf-8")
		send(w, r, page)
		return
	}
	report := h.report(r.Context())
	tag, err := report.tag()
	if err == nil && has(r, tag) {
		header.Set("ETag", tag)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, err := plainjson.Line(report) // it fails if, and as, tag does
	if err != nil {
		http.Error(w, "the report could not be encoded", http.StatusInternalServerError)
		return
	}
	header.Set("ETag", tag)
	header.Set("Content-Type", "application/json; charset=utf-8")
	send(w, r, body)
}
