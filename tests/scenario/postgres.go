package scenario

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgres is a Store in a database. Its pool is not that of the locks.
type postgres struct{ pool *pgxpool.Pool }

// poolSize is what the application serves with.
const poolSize = 10

const tables = `
CREATE TABLE IF NOT EXISTS agents (id text PRIMARY KEY, agent jsonb NOT NULL, fence bigint NOT NULL);
CREATE TABLE IF NOT EXISTS turns (id text PRIMARY KEY, prompt text NOT NULL, summary text NOT NULL);
`

// NewPostgres returns a Store in a database, and what ends it.
func NewPostgres(ctx context.Context, conn string) (Store, func(), error) {
	config, err := pgxpool.ParseConfig(conn)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	if _, err := pool.Exec(ctx, tables); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return postgres{pool}, pool.Close, nil
}

func (s postgres) Create(ctx context.Context, agent Agent) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO agents VALUES ($1, $2, 0)`, agent.ID, agent)
	return err
}

func (s postgres) Agents(ctx context.Context) ([]string, error) {
	rows, _ := s.pool.Query(ctx, `SELECT id FROM agents ORDER BY id`) // CollectRows has the error
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (s postgres) Read(ctx context.Context, id string) (agent Agent, err error) {
	err = s.pool.QueryRow(ctx, `SELECT agent FROM agents WHERE id = $1`, id).Scan(&agent)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%w: agent %q", ErrUnknown, id)
	}
	return agent, err
}

// errLate is for who no longer has the lock.
var errLate = errors.New("a later holder of the lock has begun")

// Refresh leaves the hold's fence in the row. A process that dies loses its lock while
// the server may still be at its last statement: that must not take effect after this.
func (s postgres) Refresh(ctx context.Context, id string) (agent Agent, err error) {
	fence, err := fenceOf(ctx)
	if err != nil {
		return agent, err
	}
	err = s.pool.QueryRow(ctx, `UPDATE agents SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING agent`, id, fence).Scan(&agent)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("agent %q: %w", id, errLate)
	}
	return agent, err
}

func (s postgres) Commit(ctx context.Context, agent Agent) error {
	fence, err := fenceOf(ctx)
	if err != nil {
		return err
	}
	done, err := s.pool.Exec(ctx, `UPDATE agents SET agent = $2, fence = $3 WHERE id = $1 AND fence <= $3`, agent.ID, agent, fence)
	if err == nil && done.RowsAffected() == 0 {
		err = fmt.Errorf("agent %q: %w", agent.ID, errLate)
	}
	return err
}

func (s postgres) AddTurn(ctx context.Context, t Turn) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO turns VALUES ($1, $2, $3)`, t.ID, t.Prompt, t.Summary)
	return err
}

func (s postgres) Turns(ctx context.Context) ([]Turn, error) {
	rows, _ := s.pool.Query(ctx, `SELECT id, prompt, summary FROM turns`) // CollectRows has the error
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Turn])
}

// lockNotAvailable is the server's code for what NOWAIT does not wait for.
const lockNotAvailable = "55P03"

// TurnAlone locks the row: work and lock are in one transaction.
func (s postgres) TurnAlone(ctx context.Context, id string, summarise func(Turn) (string, error)) (bool, error) {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		t := Turn{ID: id}
		err := tx.QueryRow(ctx, `SELECT prompt, summary FROM turns WHERE id = $1 FOR UPDATE NOWAIT`, id).Scan(&t.Prompt, &t.Summary)
		if err != nil {
			return err
		}
		summary, err := summarise(t)
		if err != nil || summary == t.Summary {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE turns SET summary = $2 WHERE id = $1`, id, summary)
		return err
	})
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == lockNotAvailable {
		return false, nil
	}
	return err == nil, err
}

func fenceOf(ctx context.Context) (int64, error) {
	held := lock.HoldOf(ctx)
	if held == nil {
		return 0, errors.New("not under a lock")
	}
	return held.Fence()
}
