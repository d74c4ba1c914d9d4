package pg_test

import (
	"context"
	"errors"
	"log"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A row is changed under a lock, and only by who has it still. It needs a server, so it is
// not run as a test.
func Example() {
	ctx := context.Background()
	db, err := pgxpool.New(ctx, "host=db dbname=app")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	locks, err := pg.Open(ctx, pg.Options{Conn: "host=db dbname=app", Cmd: "billing"}) // a pool for locks alone
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = lock.Do(ctx, locks, lock.Key{Space: "account", Name: "42"}, func(ctx context.Context, held lock.Hold) error {
		// ctx ends, with lock.ErrLost, if the server or the network fails us.
		fence, err := held.Fence()
		if err != nil {
			return err
		}
		done, err := db.Exec(ctx, `UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2`, 100, fence, 42)
		if err == nil && done.RowsAffected() == 0 {
			err = errors.New("a later holder has written")
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
