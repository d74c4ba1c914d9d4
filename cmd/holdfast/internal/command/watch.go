package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/spf13/cobra"
)

// A look is what was found of the watched locks at one time.
type look struct {
	at    time.Time
	locks []lock.Status // each once
	errs  []error       // of what could not be read
}

// watchCommand shows what becomes of locks, until a signal comes.
func (a *app) watchCommand(parent *cobra.Command) {
	interval := time.Second
	var asJSON *bool
	c := a.command(parent, "watch", func(_ *cobra.Command, names []string) (int, error) {
		if interval == 0 {
			return 0, misused("--interval 0 would leave no time between two looks")
		}
		if len(names) == 0 {
			names = []string{"."}
		}
		return a.watch(names, interval, *asJSON)
	})
	unbuffer(c)
	durationFlag(c.Flags(), &interval, "interval", "", "the time between two looks, `D`; 1s without it")
	asJSON = jsonFlag(c)
}

func (a *app) watch(names []string, interval time.Duration, asJSON bool) (int, error) {
	for _, name := range names {
		if isAbsent(name) && isAbsent(name+".flock") && !isAbsent(filepath.Dir(name)) {
			a.say("there is no lock " + visible(name) + " yet, nor a folder of that name; it is told of when there is one")
		}
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, caughtSignals()...)
	defer signal.Stop(signals)

	c := &changes{app: a, asJSON: asJSON, last: map[string]lock.Status{}}
	// A folder may not answer, and signals must not wait for it.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	looks := make(chan look, 1)
	begin := func() { go func() { looks <- lookAt(ctx, names) }() }
	begin()
	var next <-chan time.Time // one look at a time: two would meet
	for {
		select {
		case l := <-looks:
			if err := c.show(l); err != nil {
				return 0, err
			}
			next = time.After(interval)
		case <-next:
			begin()
		case s := <-signals:
			suspend(s)
			if endsWait(s) {
				return exitOK, nil
			}
		}
	}
}

// lookAt looks at locks, and at all below folders.
func lookAt(ctx context.Context, names []string) look {
	l := look{at: time.Now()}
	seen := map[string]bool{}
	add := func(s lock.Status, err error) {
		switch {
		case err != nil:
			l.errs = append(l.errs, err)
		case !seen[s.Path]:
			seen[s.Path] = true
			l.locks = append(l.locks, s)
		}
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			add(lock.File{Path: name}.Inspect(ctx))
			continue
		}
		dir, err := folder(name)
		if err != nil {
			add(lock.Status{}, err)
			continue
		}
		for s, err := range lock.List(ctx, dir) {
			add(s, err)
		}
	}
	return l
}

// changes writes a line for each change, from what the first look finds.
type changes struct {
	app    *app
	asJSON bool
	last   map[string]lock.Status // by path
	told   []string               // errors, as long as they last
}

// A change is what has become of a lock, or a new waiter for it.
type change struct {
	At    time.Time `json:"at"`
	Event string    `json:"event"` // a lock.State, or "waiting"
	lock.Status
	Waiter *lock.Process `json:"waiter,omitempty"`
}

const eventWaiting = "waiting"

func (c *changes) show(l look) error {
	var told []string
	for _, err := range l.errs {
		text := oneLine(err)
		if !slices.Contains(c.told, text) {
			c.app.say(text)
		}
		told = append(told, text)
	}
	c.told = told

	now := map[string]lock.Status{}
	var errs []error
	tell := func(event string, s lock.Status, waiter *lock.Process) {
		errs = append(errs, c.write(change{At: l.at, Event: event, Status: s, Waiter: waiter}))
	}
	for _, s := range l.locks {
		now[s.Path] = s
		before, known := c.last[s.Path]
		if !known || !sameHolding(before, s) {
			tell(string(s.State), s, nil)
		}
		for _, w := range s.Waiters {
			if !slices.ContainsFunc(before.Waiters, func(b lock.Process) bool { return b.PID == w.PID && b.Since.Equal(w.Since) }) {
				tell(eventWaiting, s, &w)
			}
		}
	}
	for path, before := range c.last {
		switch _, there := now[path]; {
		case there:
		case len(l.errs) > 0 && !isAbsent(path):
			now[path] = before // it could not be read
		case before.State != evidence.Free: // its file has gone, and it never had another beside it
			tell(string(evidence.Free), lock.Status{Path: path, State: evidence.Free, Evidence: evidence.NoLockFile}, nil)
		}
	}
	c.last = now
	return errors.Join(errs...)
}

func isAbsent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// sameHolding reports whether a lock is found as it was before, waiters apart. It ignores which
// readers there are, or which children of a holder that has gone.
func sameHolding(a, b lock.Status) bool {
	identity := func(h *evidence.Claim) holding {
		if h == nil {
			return holding{}
		}
		return holding{h.PID, h.CreatedAt.UnixNano(), h.Nonce}
	}
	switch {
	case a.State != b.State || a.Shared != b.Shared:
		return false
	case a.Shared:
		return true
	case a.Info == nil && b.Info == nil && a.Gone == nil && b.Gone == nil:
		return slices.EqualFunc(a.Processes, b.Processes, func(p, q lock.Process) bool { return p.PID == q.PID })
	}
	return identity(a.Info) == identity(b.Info) && identity(a.Gone) == identity(b.Gone)
}

func (c *changes) write(ch change) error {
	if c.asJSON {
		return writeJSON(c.app.stdout, ch)
	}
	text := ""
	switch {
	case ch.Waiter != nil:
		text = fileWords.processes([]lock.Process{{PID: ch.Waiter.PID, Cmd: ch.Waiter.Cmd}})
	case ch.State != evidence.Free:
		_, text = fileWords.holder(ch.Status)
	}
	_, err := fmt.Fprintln(c.app.stdout, strings.TrimRight(fmt.Sprintf("%s %-7s %s  %s", ch.At.Format("2006-01-02T15:04:05.000Z07:00"), ch.Event, visible(ch.Path), text), " "))
	return err
}
