package monitor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// engine is an Engine, and the look at it that is under way, if any.
type engine struct {
	Engine
	mu      sync.Mutex
	current *look
}

// look is one call of List.
type look struct {
	over    chan struct{}   // closed when List has returned
	expired <-chan struct{} // closed when it should have

	mu     sync.Mutex
	locks  []lock.Status // only ever appended to
	first  error         // of failures
	errors int
}

// ask looks at the engine, or joins a look that is under way, and returns what was found in
// the time it may take. If a look does not end, whatever its context says, no other follows:
// they would pile up.
func (e *engine) ask(ctx context.Context) ([]lock.Status, error) {
	e.mu.Lock()
	l := e.current
	if l == nil {
		// Not ctx: others may join, and the first may leave first.
		limited, cancel := context.WithTimeout(context.Background(), answerTime)
		l = &look{over: make(chan struct{}), expired: limited.Done()}
		e.current = l
		go func() {
			defer cancel()
			l.run(limited, e.Lister)
			e.mu.Lock()
			e.current = nil
			e.mu.Unlock()
			close(l.over)
		}()
	}
	e.mu.Unlock()
	select {
	case <-l.over:
	case <-l.expired:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return l.found()
}

// run lists. A panic must not take down the program that the page is part of.
func (l *look) run(ctx context.Context, lister Lister) {
	defer func() {
		if p := recover(); p != nil {
			l.add(lock.Status{}, fmt.Errorf("panic: %v", p))
		}
	}()
	for s, err := range lister.List(ctx) {
		l.add(s, err)
	}
	if err := ctx.Err(); err != nil {
		l.add(lock.Status{}, errSlow) // it may have stopped without a word
	}
}

func (l *look) add(s lock.Status, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.locks = append(l.locks, s)
		return
	}
	l.errors++
	if l.first == nil {
		l.first = err
	}
}

var errSlow = fmt.Errorf("no answer within %v", answerTime)

// found returns what there is, and an error if that is not all.
func (l *look) found() ([]lock.Status, error) {
	over := false
	select {
	case <-l.over:
		over = true
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.errors > 1:
		return l.locks, fmt.Errorf("%w (and %d more)", l.first, l.errors-1)
	case l.first == nil && !over:
		return l.locks, errSlow
	}
	return l.locks, l.first
}

// report asks all engines at once.
func (h *handler) report(ctx context.Context) Report {
	type answer struct {
		locks []lock.Status
		err   error
	}
	answers := make([]answer, len(h.engines))
	var asked sync.WaitGroup
	for i, e := range h.engines {
		asked.Go(func() { answers[i].locks, answers[i].err = e.ask(ctx) })
	}
	asked.Wait()
	r := Report{Locks: []Lock{}, Engines: []EngineState{}, Host: h.host, At: time.Now().UTC()}
	for i, e := range h.engines {
		state := EngineState{Name: e.Name}
		if err := answers[i].err; err != nil {
			state.Error = known(err.Error())
		}
		r.Engines = append(r.Engines, state)
		for _, s := range answers[i].locks {
			r.Locks = append(r.Locks, describe(e.Engine, s, r.At)...)
		}
	}
	r.Total = len(r.Locks)
	return r
}
