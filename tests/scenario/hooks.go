package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
)

// Hook is what an agent's session tells. Session is "session-" and the agent's id.
type Hook struct {
	ID, Session, Text string
}

// routes are the hooks that change something.
var routes = map[string]func(agent *Agent, h Hook){
	"session-start":      func(agent *Agent, _ Hook) { agent.Ended, agent.Reaped = false, false },
	"session-end":        func(agent *Agent, _ Hook) { agent.Ended = true },
	"user-prompt-submit": userPromptSubmit,
	"stop":               func(agent *Agent, _ Hook) { agent.Tool = "" },
	"notification":       func(agent *Agent, _ Hook) { agent.Waiting = true },
	"pre-tool-use":       func(agent *Agent, h Hook) { agent.Tool = h.Text },
	"post-tool-use":      func(agent *Agent, _ Hook) { agent.Tool, agent.Waiting = "", false },
	"permission-request": func(agent *Agent, _ Hook) { agent.Waiting = true },
}

func userPromptSubmit(agent *Agent, h Hook) {
	if agent.open() == nil {
		agent.Commands = append(agent.Commands, Command{ID: h.ID})
	}
}

// Handler serves the hooks, and the config editor.
func (a *App) Handler() http.Handler {
	mux := http.NewServeMux()
	for route := range routes {
		mux.HandleFunc("POST /hook/"+route, func(w http.ResponseWriter, r *http.Request) { a.hook(w, r, route) })
	}
	mux.HandleFunc("GET /hook/status", a.status)
	mux.HandleFunc("POST /config", func(w http.ResponseWriter, r *http.Request) {
		answer(w, nil, a.SaveConfig(r.Context(), r.FormValue("name"), r.FormValue("value")))
	})
	return mux
}

var errBadHook = errors.New("not a hook")

// hook finds out which agent it is about, and processes it under the agent's lock. The
// answer is the agent afterwards.
func (a *App) hook(w http.ResponseWriter, r *http.Request, route string) {
	var h Hook
	if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
		answer(w, nil, fmt.Errorf("%w: %w", errBadHook, err))
		return
	}
	ctx := r.Context()
	agent, err := a.Store.Read(ctx, strings.TrimPrefix(h.Session, "session-"))
	if err != nil {
		answer(w, nil, err)
		return
	}
	held, err := lock.AcquireWithin(ctx, a.Locks, agentLock(agent.ID), a.HookTimeout)
	if err != nil {
		answer(w, nil, err)
		return
	}
	agent, err = a.process(held.Context(ctx), agent.ID, route, h)
	answer(w, agent, errors.Join(err, held.Release()))
}

// process commits several times; all of it is under one lock.
func (a *App) process(ctx context.Context, id, route string, h Hook) (after Agent, err error) {
	then := func() {} // once all is committed
	err = a.change(ctx, id, h.ID, func(agent *Agent) error {
		agent.Latest = h.ID
		if err := a.Store.Commit(ctx, *agent); err != nil {
			return err
		}
		if route == "user-prompt-submit" {
			if err := a.Store.AddTurn(ctx, Turn{ID: h.ID, Prompt: h.Text}); err != nil {
				return err
			}
		}
		routes[route](agent, h)
		if route == "session-end" {
			then = a.complete(agent.open(), route)
		}
		if c := agent.open(); route == "stop" && c != nil {
			then = func() { a.deferStop(id, c.ID) }
		}
		agent.Events++
		agent.Seen = append(agent.Seen, h.ID)
		after = *agent
		return nil
	})
	if err == nil {
		then()
	}
	return after, err
}

// status takes no lock.
func (a *App) status(w http.ResponseWriter, r *http.Request) {
	agent, err := a.Store.Read(r.Context(), r.FormValue("agent"))
	answer(w, agent, err)
}

func answer(w http.ResponseWriter, body any, err error) {
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body) // who does not listen has not been answered
	case errors.Is(err, lock.ErrTimeout):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case errors.Is(err, ErrUnknown):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errBadHook):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
