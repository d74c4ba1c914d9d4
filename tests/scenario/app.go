// Package scenario is an application like the agent service of FORMATS.md: one
// that is told by hooks what agents do, with workers that tend the same agents in the
// background. Several of its processes run on one state. What keeps them apart are
// holdfast's locks, and nothing else; it does not know on which engine.
//
// The tests are beside it: each scenario that it lists, and all of it at once.
package scenario

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// App is one process of the application.
type App struct {
	Name        string // of this process
	Locks       lock.Locker
	Store       Store
	Config      string        // the path of the file that the config editor edits
	HookTimeout time.Duration // how long a hook waits for its agent
	Outside     Outside

	deferred sync.WaitGroup // stops that are yet to come
}

// HookTimeout is how long that service has a hook wait.
const HookTimeout = 15 * time.Second

// Outside is what the application does to the world, which no rollback undoes.
type Outside struct {
	// Processing is called when an agent has been read, and is going to be
	// changed; done, when that is over. Both are called under the agent's lock.
	Processing func(agent, what string) (done func())
	// Announce tells users what has been committed.
	Announce func(what, subject string)
	// Call asks a language model. It is costly.
	Call func(turn Turn) (summary string, err error)
	// Inject types a persona's skills into an agent's terminal.
	Inject func(agent string) error
	// Sleep is for deferred stops.
	Sleep func(time.Duration)
}

// Agent is the record of an agent.
type Agent struct {
	ID         string
	Events     int      // hooks processed
	Seen       []string // their ids
	Latest     string   // the id of the one being processed, or processed last
	Commands   []Command
	InjectedAt time.Time
	Ended      bool
	Reaped     bool
	Tool       string
	Waiting    bool           // for a permission
	Tended     map[string]int // how often, by which worker
}

// Command is what a user has told an agent to do.
type Command struct {
	ID          string
	Complete    bool
	CompletedBy string // process and part of it
}

// Turn is one prompt of a user.
type Turn struct {
	ID, Prompt, Summary string
}

// Store is the application's state. Each of its methods is a transaction; none of
// them keeps two processes from undoing each other's work between Refresh and Commit.
type Store interface {
	Create(ctx context.Context, agent Agent) error
	Agents(ctx context.Context) (ids []string, err error)
	// Read returns the agent for looking at, and ErrUnknown if there is none.
	Read(ctx context.Context, id string) (Agent, error)
	// Refresh returns the agent for changing it. ctx carries its lock.
	Refresh(ctx context.Context, id string) (Agent, error)
	// Commit writes all of the agent.
	Commit(ctx context.Context, agent Agent) error

	AddTurn(ctx context.Context, turn Turn) error
	Turns(ctx context.Context) ([]Turn, error)
	// TurnAlone gives the turn to summarise, under a lock of its own, and keeps
	// the summary that it returns. If somebody else is at it, acquired is false.
	TurnAlone(ctx context.Context, id string, summarise func(Turn) (string, error)) (acquired bool, err error)
}

// agentLock is that service's LockNamespace.AGENT.
func agentLock(id string) lock.Key { return lock.Key{Space: "agent", Name: id} }

// change changes an agent. ctx carries its lock.
func (a *App) change(ctx context.Context, id, what string, how func(*Agent) error) error {
	agent, err := a.Store.Refresh(ctx, id)
	if err != nil {
		return err
	}
	defer a.Outside.Processing(id, what)()
	if err := how(&agent); err != nil {
		return err
	}
	return a.Store.Commit(ctx, agent)
}

// open returns the command that is not complete yet; nil if there is none.
func (agent *Agent) open() *Command {
	for i := range agent.Commands {
		if !agent.Commands[i].Complete {
			return &agent.Commands[i]
		}
	}
	return nil
}

// complete completes a command, if nobody has: announce is to be called once that is
// committed.
func (a *App) complete(c *Command, by string) (announce func()) {
	if c == nil || c.Complete {
		return func() {}
	}
	c.Complete, c.CompletedBy = true, a.Name+"/"+by
	id := c.ID
	return func() { a.Outside.Announce("completed", id) }
}
