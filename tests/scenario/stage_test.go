package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

var (
	check = testkit.Check
	that  = testkit.That
	errOf = testkit.ErrOf
	noErr = testkit.NoErr
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

// patience is for what is bound to come about.
const patience = time.Minute

// stage is a process of the application whose steps wait for the test.
type stage struct {
	*App
	t   *testing.T
	url string

	asleep, wake chan struct{} // each Sleep sends to one and receives from the other
	over         chan struct{} // closed when the test ends: then nothing stops any more
	waits        chan struct{} // has one for each wait for a lock

	mu      sync.Mutex
	pauses  map[string]*pause
	done    []string // what has been processed, asked, injected and announced, in order
	locked  int      // how many locks were acquired
	onEvent func(what, subject string)
}

// pause stops one step.
type pause struct {
	t       *testing.T
	reached chan struct{}
	resume  chan struct{}
}

// open starts a process on the site.
func open(t *testing.T, s site, name string) *stage {
	t.Helper()
	st := &stage{
		t: t, asleep: make(chan struct{}), wake: make(chan struct{}), over: make(chan struct{}), waits: make(chan struct{}, 100),
		pauses: map[string]*pause{}, onEvent: func(string, string) {},
	}
	app, end, err := s.open(name, st.Observe)
	check(t, err)
	t.Cleanup(end)
	st.App = app
	app.Outside = Outside{
		Processing: func(agent, what string) func() {
			st.step("process " + what + " of " + agent)
			return func() {}
		},
		Announce: func(what, subject string) {
			st.onEvent(what, subject)
			st.step(what + " " + subject)
		},
		Call: func(turn Turn) (string, error) {
			st.step("call " + turn.ID)
			return "in short: " + turn.Prompt, nil
		},
		Inject: func(agent string) error {
			st.step("inject " + agent)
			return nil
		},
		Sleep: func(time.Duration) {
			select {
			case st.asleep <- struct{}{}:
			case <-st.over:
			}
			st.stop(st.wake)
		},
	}
	t.Cleanup(app.Wait)
	server := httptest.NewServer(app.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(st.over) })
	st.url = server.URL
	return st
}

// Observe is the locks'.
func (st *stage) Observe(e lock.Event) {
	switch {
	case e.Kind == lock.EventWaiting && e.Duration == 0:
		st.waits <- struct{}{}
	case e.Kind == lock.EventAcquired:
		st.mu.Lock()
		defer st.mu.Unlock()
		st.locked++
	}
}

func (st *stage) step(what string) {
	st.mu.Lock()
	st.done = append(st.done, what)
	p := st.pauses[what]
	delete(st.pauses, what)
	st.mu.Unlock()
	if p != nil {
		close(p.reached)
		st.stop(p.resume)
	}
}

func (st *stage) stop(until <-chan struct{}) {
	select {
	case <-until:
	case <-st.over:
	}
}

// ctx is for what should not take long.
func (st *stage) ctx() context.Context {
	ctx, cancel := context.WithTimeout(st.t.Context(), patience)
	st.t.Cleanup(cancel)
	return ctx
}

// waitStops waits for the deferred stops.
func (st *stage) waitStops() {
	st.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		st.Wait()
	}()
	within(st.t, "the end of the deferred stops", done)
}

// has counts how often a step was reached.
func (st *stage) has(what string) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(slices.Collect(func(yield func(string) bool) {
		for _, d := range st.done {
			if d == what && !yield(d) {
				return
			}
		}
	}))
}

// pauseAt has the next step of that name stop.
func (st *stage) pauseAt(what string) *pause {
	p := &pause{st.t, make(chan struct{}), make(chan struct{})}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pauses[what] = p
	return p
}

func (p *pause) wait() {
	p.t.Helper()
	within(p.t, "the step", p.reached)
}

func within[T any](t *testing.T, what string, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(patience):
		t.Fatalf("never came about: %s", what)
	}
	return got
}

// response is an answer that has been read.
type response struct {
	status     int
	retryAfter string
	body       string
	agent      Agent
}

func ask(method, url string, body any) (response, error) {
	var r response
	data, err := json.Marshal(body)
	if err != nil {
		return r, err
	}
	request, err := http.NewRequest(method, url, bytes.NewReader(data))
	if err != nil {
		return r, err
	}
	answered, err := http.DefaultClient.Do(request)
	if err != nil {
		return r, err
	}
	defer answered.Body.Close()
	data, err = io.ReadAll(answered.Body)
	r.status, r.retryAfter, r.body = answered.StatusCode, answered.Header.Get("Retry-After"), string(data)
	if err == nil && r.status == http.StatusOK {
		err = json.Unmarshal(data, &r.agent)
	}
	return r, err
}

// hook sends a hook, and does not wait for the answer.
func (st *stage) hook(route, agent, id string) <-chan response {
	c := make(chan response, 1)
	go func() {
		r, err := ask(http.MethodPost, st.url+"/hook/"+route, Hook{ID: id, Session: "session-" + agent, Text: "text of " + id})
		noErr(st.t, err)
		c <- r
	}()
	return c
}

// ok waits for an answer, which must be a good one.
func ok(t *testing.T, c <-chan response) Agent {
	t.Helper()
	r := within(t, "the answer", c)
	if r.status != http.StatusOK {
		t.Fatalf("answer is %d %s", r.status, r.body)
	}
	return r.agent
}

// read returns the agent as it is now.
func (st *stage) read(agent string) Agent {
	st.t.Helper()
	got := must(st.Store.Read(st.t.Context(), agent))(st.t)
	return got
}

func (st *stage) create(agents ...string) {
	st.t.Helper()
	for _, id := range agents {
		check(st.t, st.Store.Create(st.t.Context(), Agent{ID: id}))
	}
}
