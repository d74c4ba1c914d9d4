package command

import (
	"context"
	"fmt"
	"iter"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/monitor"
	"github.com/spf13/cobra"
)

// farewell is how long requests that are being answered may take to end.
const farewell = 2 * time.Second

// serveCommand shows the locks below folders in a browser, until a signal comes.
func (a *app) serveCommand(parent *cobra.Command) {
	var addr string
	var asJSON *bool
	var e *engines
	c := a.command(parent, "serve", func(_ *cobra.Command, dirs []string) (int, error) {
		if len(dirs) == 0 && !e.inServer() {
			return 0, misused("DIR is missing")
		}
		if path, ok := strings.CutPrefix(addr, "unix:"); ok && path == "" {
			return 0, misused("--addr unix: lacks the path of the socket")
		} else if _, _, err := net.SplitHostPort(addr); !ok && err != nil {
			return 0, misused("--addr %s is neither HOST:PORT nor unix:PATH", visible(addr))
		}
		all, err := pages(dirs)
		if err != nil {
			return 0, err
		}
		if e.inServer() {
			d, err := e.connect("holdfast serve")
			if err != nil {
				return 0, err
			}
			defer d.Close()
			all = append(all, monitor.Engine{Name: d.Name(), Lister: d.server, Next: d.words().advice})
		}
		// Signals are caught before it listens: a reader of the address may end it.
		ctx, stop := signal.NotifyContext(context.Background(), caughtSignals()...)
		defer stop()
		l, err := listen(ctx, addr)
		if err != nil {
			return 0, err
		}
		defer l.end()
		defer l.Close()
		handler := monitor.New(all...)
		if l.loopback {
			handler = localOnly(handler)
		}
		if l.exposure != "" {
			a.say("anyone who can reach " + l.exposure + " can see who holds these locks, and what they say of themselves")
		}
		if err := a.announce(l, *asJSON); err != nil {
			return 0, err
		}
		return exitOK, a.serveOn(ctx, l, handler)
	})
	unbuffer(c)
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "`HOST:PORT`, or unix:PATH")
	asJSON = jsonFlag(c)
	e = engineFlags(c)
}

// pages returns an engine for each folder, under its absolute path. A folder that is
// named twice, or is part of another, counts once.
func pages(dirs []string) (all []monitor.Engine, err error) {
	type place struct {
		name, path string
		info       os.FileInfo
	}
	var places []place
	for _, dir := range dirs {
		var p place
		if p.path, err = folder(dir); err == nil {
			p.path, err = filepath.Abs(p.path)
		}
		if err == nil {
			p.name, err = filepath.Abs(dir)
		}
		if err == nil {
			p.info, err = os.Stat(p.path)
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(places, func(o place) bool { return os.SameFile(o.info, p.info) }) {
			places = append(places, p)
		}
	}
	for _, p := range places {
		if !slices.ContainsFunc(places, func(o place) bool { return o.path != p.path && below(o.path, p.path) }) {
			all = append(all, monitor.Engine{Name: p.name, Lister: lockFiles{p.path}, Next: advice})
		}
	}
	return all, nil
}

// below reports whether path is in the folder dir, or below it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// announce prints where the page is, for people or for a program that waits for it.
func (a *app) announce(l *listener, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, l)
	}
	at := l.URL
	if l.Socket != "" {
		at = "unix:" + visible(l.Socket)
	}
	_, err := fmt.Fprintln(a.stdout, "listening on "+at)
	return err
}

// serveOn answers requests until ctx ends.
func (a *app) serveOn(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute, // a report may be large, and the line slow
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(sayWriter{a}, "", 0),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if server.Shutdown(wait) != nil {
		_ = server.Close() // clients that are still being answered have had the time
	}
	return nil
}

// sayWriter says each message it is handed, which may quote what a client has sent.
type sayWriter struct{ a *app }

func (w sayWriter) Write(message []byte) (int, error) {
	w.a.say(visible(strings.TrimSpace(string(message))))
	return len(message), nil
}

// localOnly refuses requests that are meant for another host. A page from anywhere can have
// its own name resolve to this machine, and the browser would then let it read everything
// here. But the Host header still has that name. The port is not looked at: a tunnel may have
// another.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			http.Error(w, "only requests for localhost are answered", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether a Host header names this machine, by a name that no page from
// elsewhere can have.
func isLocal(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// lockFiles lists the lock files below a folder, whatever named them, under their
// paths: the folder is the space.
type lockFiles struct{ dir string }

// List yields the locks; a free one gives no line.
func (f lockFiles) List(ctx context.Context) iter.Seq2[lock.Status, error] {
	return func(yield func(lock.Status, error) bool) {
		for status, err := range lock.List(ctx, f.dir) {
			status.Key = f.key(status.Path)
			if !yield(status, err) {
				return
			}
		}
	}
}

func (f lockFiles) key(path string) lock.Key {
	space, err := filepath.Rel(f.dir, filepath.Dir(path))
	if err != nil {
		space = filepath.Dir(path)
	}
	return lock.Key{Space: filepath.ToSlash(space), Name: filepath.Base(path)}
}
