package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
)

// ErrUnknown is returned for an agent or a turn that there is not.
var ErrUnknown = errors.New("there is no such")

// files is a Store in plain files: nobody sees half of one, but they are replaced
// whoever has written them meanwhile.
type files struct {
	dir   string
	locks lock.Locker
}

// NewFiles returns a Store in a folder.
func NewFiles(dir string, locks lock.Locker) (Store, error) {
	s := files{dir, locks}
	for _, kind := range []string{"agents", "turns"} {
		if err := os.MkdirAll(filepath.Join(dir, kind), 0o777); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s files) Create(ctx context.Context, agent Agent) error { return s.Commit(ctx, agent) }

func (s files) Agents(context.Context) ([]string, error) { return s.names("agents") }

func (s files) Read(_ context.Context, id string) (agent Agent, err error) {
	return agent, s.get("agents", id, &agent)
}

// Refresh needs no fence: who has died has lost the lock after they had written for
// the last time.
func (s files) Refresh(ctx context.Context, id string) (Agent, error) { return s.Read(ctx, id) }

func (s files) Commit(ctx context.Context, agent Agent) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.put("agents", agent.ID, agent)
}

func (s files) AddTurn(_ context.Context, turn Turn) error { return s.put("turns", turn.ID, turn) }

func (s files) Turns(context.Context) (turns []Turn, err error) {
	ids, err := s.names("turns")
	for _, id := range ids {
		var t Turn
		err = errors.Join(err, s.get("turns", id, &t))
		turns = append(turns, t)
	}
	return turns, err
}

func (s files) TurnAlone(ctx context.Context, id string, summarise func(Turn) (string, error)) (bool, error) {
	return lock.TryDo(ctx, s.locks, lock.Key{Space: "turn", Name: id}, func(context.Context, lock.Hold) error {
		var t Turn
		if err := s.get("turns", id, &t); err != nil {
			return err
		}
		summary, err := summarise(t)
		if err != nil || summary == t.Summary {
			return err
		}
		t.Summary = summary
		return s.put("turns", id, t)
	})
}

func (s files) path(kind, id string) string {
	return filepath.Join(s.dir, kind, url.PathEscape(id)+".json")
}

func (s files) names(kind string) (ids []string, err error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, kind, "*.json"))
	for _, path := range paths {
		id, uerr := url.PathUnescape(strings.TrimSuffix(filepath.Base(path), ".json"))
		err = errors.Join(err, uerr)
		ids = append(ids, id)
	}
	return ids, err
}

func (s files) get(kind, id string, into any) error {
	data, err := os.ReadFile(s.path(kind, id))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %q in %s", ErrUnknown, id, kind)
	} else if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func (s files) put(kind, id string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "new")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.path(kind, id))
}
