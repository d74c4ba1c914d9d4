package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// Workers are what goes over all agents, again and again.
var Workers = map[string]func(agent *Agent){
	"agent-reaper": func(agent *Agent) {
		if agent.Ended {
			agent.Reaped, agent.Tool = true, ""
		}
	},
	"transcript-reconciler": func(agent *Agent) {
		if agent.open() == nil {
			agent.Waiting = false
		}
	},
	"context-poller": func(*Agent) {},
	"tmux-watchdog":  func(*Agent) {},
}

// Cycle has a worker tend each agent in turn, under its lock, and returns those that
// were skipped, as they were busy.
func (a *App) Cycle(ctx context.Context, worker string) (skipped []string, err error) {
	ids, err := a.Store.Agents(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		acquired, err := lock.TryDo(ctx, a.Locks, agentLock(id), func(ctx context.Context, _ lock.Hold) error {
			err := a.change(ctx, id, worker, func(agent *Agent) error {
				Workers[worker](agent)
				if agent.Tended == nil {
					agent.Tended = map[string]int{}
				}
				agent.Tended[worker]++
				return nil
			})
			if err == nil {
				a.Outside.Announce(worker, id)
			}
			return err
		})
		if err != nil {
			return skipped, err
		}
		if !acquired {
			skipped = append(skipped, id)
		}
	}
	return skipped, nil
}

// Background runs the workers, the summariser and the injector: all at once after each
// tick; and when there are no more ticks once more, one after the other.
func (a *App) Background(ctx context.Context, tick <-chan time.Time) error {
	jobs := []func(context.Context) error{a.summariseAll, a.injectAll}
	for worker := range Workers {
		jobs = append(jobs, func(ctx context.Context) error {
			_, err := a.Cycle(ctx, worker)
			return err
		})
	}
	for range tick {
		errs := make(chan error)
		for _, job := range jobs {
			go func() { errs <- job(ctx) }()
		}
		var err error
		for range jobs {
			err = errors.Join(err, <-errs)
		}
		if err != nil {
			return err
		}
	}
	var err error
	for _, job := range jobs {
		err = errors.Join(err, job(ctx))
	}
	return err
}

// stopDelay is how long a stop is put off, as an agent may go on.
const stopDelay = 20 * time.Millisecond

// deferStop completes a command, later: it takes the lock after its sleep, and looks
// again.
func (a *App) deferStop(id, command string) {
	a.deferred.Go(func() {
		a.Outside.Sleep(stopDelay)
		announce := func() {}
		err := lock.Do(context.Background(), a.Locks, agentLock(id), func(ctx context.Context, _ lock.Hold) error {
			err := a.change(ctx, id, "deferred-stop", func(agent *Agent) error {
				for i := range agent.Commands {
					if agent.Commands[i].ID == command {
						announce = a.complete(&agent.Commands[i], "deferred-stop")
					}
				}
				return nil
			})
			if err == nil {
				announce()
			}
			return err
		})
		if err != nil {
			a.Outside.Announce("failed", "deferred stop of "+command+": "+err.Error())
		}
	})
}

// Wait waits for the deferred stops.
func (a *App) Wait() { a.deferred.Wait() }

// Summarise returns a turn's summary, and makes it if there is none. If somebody else
// is making it, it returns "", and no error.
func (a *App) Summarise(ctx context.Context, turn string) (summary string, err error) {
	called := false
	acquired, err := a.Store.TurnAlone(ctx, turn, func(t Turn) (string, error) {
		if summary = t.Summary; summary != "" {
			return summary, nil
		}
		called = true
		var err error
		summary, err = a.Outside.Call(t)
		return summary, err
	})
	if err != nil || !acquired {
		return "", err
	}
	if called {
		a.Outside.Announce("summarised", turn)
	}
	return summary, nil
}

func (a *App) summariseAll(ctx context.Context) error {
	turns, err := a.Store.Turns(ctx)
	for _, t := range turns {
		if t.Summary == "" {
			_, serr := a.Summarise(ctx, t.ID)
			err = errors.Join(err, serr)
		}
	}
	return err
}

// InjectSkills gives an agent its skills, once. The agent may have been read long ago.
func (a *App) InjectSkills(ctx context.Context, stale Agent) error {
	_, err := lock.TryDo(ctx, a.Locks, agentLock(stale.ID), func(ctx context.Context, _ lock.Hold) error {
		injected := false
		err := a.change(ctx, stale.ID, "skill-injector", func(agent *Agent) error {
			if !agent.InjectedAt.IsZero() {
				return nil
			}
			injected, agent.InjectedAt = true, time.Now()
			return a.Outside.Inject(agent.ID)
		})
		if err == nil && injected {
			a.Outside.Announce("injected", stale.ID)
		}
		return err
	})
	return err
}

func (a *App) injectAll(ctx context.Context) error {
	ids, err := a.Store.Agents(ctx)
	for _, id := range ids {
		agent, rerr := a.Store.Read(ctx, id)
		if err = errors.Join(err, rerr); rerr == nil && agent.InjectedAt.IsZero() {
			err = errors.Join(err, a.InjectSkills(ctx, agent))
		}
	}
	return err
}

// SaveConfig merges one setting into the config file.
func (a *App) SaveConfig(ctx context.Context, name, value string) error {
	return lock.Update(ctx, a.Config, func(old []byte) ([]byte, error) {
		config := map[string]string{}
		if old != nil {
			if err := json.Unmarshal(old, &config); err != nil {
				return nil, err
			}
		}
		defer a.Outside.Processing("config", name)()
		config[name] = value
		return json.Marshal(config)
	})
}
