package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// RegisterAll registers the spaces that the database has as numeric by now, each as with
// Register: for programs that meet the locks of others, whatever these have registered. On
// failure none is.
func (l *Locker) RegisterAll(ctx context.Context) error {
	found := map[string]int32{}
	err := l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT name, id FROM "+quote(l.options.Schema)+".spaces WHERE id IS NOT NULL")
		if err != nil {
			return err
		}
		var name string
		var id int32
		_, err = pgx.ForEachRow(rows, []any{&name, &id}, func() error {
			found[name] = id
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("pg: register all: %w", err)
	}
	l.names.mu.Lock()
	defer l.names.mu.Unlock()
	for name, id := range found {
		l.names.registered[name] = id
	}
	return nil
}
