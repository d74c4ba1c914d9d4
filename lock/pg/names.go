package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/jackc/pgx/v5"
)

// names is what this process has learned of the database's names and spaces.
type names struct {
	readFence, putFence, oldFences string
	readSpace, addSpace            string
	readName, addName, purge       string
	list, inspect                  string
	registerSpace, readSpaces      string

	mu         sync.Mutex // guards what follows
	registered map[string]int32
	named      map[string]bool // spaces that have names, which stays so
	entered    map[int64]entered
}

// entered is a name that the database has, by a look of less than rememberFor ago.
type entered struct {
	key lock.Key
	at  time.Time
}

const (
	// rememberFor is how long a name is taken to be there.
	rememberFor = 12 * time.Hour
	// rememberMost bounds their number.
	rememberMost = 10000
	// minUnused is the least time after which a name may be purged: nobody remembers a name
	// after twice rememberFor.
	minUnused = 4 * rememberFor
)

func (ns *names) init(schema string) {
	in := func(sql string) string { return strings.ReplaceAll(sql, "$.", quote(schema)+".") }
	ns.registered, ns.named, ns.entered = map[string]int32{}, map[string]bool{}, map[int64]entered{}
	ns.readFence = in(`SELECT coalesce((SELECT fence FROM $.fences WHERE key = $1), 0)`)
	ns.putFence = in(`INSERT INTO $.fences (key, fence) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET fence = excluded.fence RETURNING fence`)
	// Those given so long ago are less than the time of day, from which the next ones go on.
	ns.oldFences = in(`DELETE FROM $.fences WHERE fence < extract(epoch FROM now() - $1::interval) * 1000000`)
	ns.readSpace = in(`SELECT id FROM $.spaces WHERE name = $1`)
	ns.addSpace = in(`INSERT INTO $.spaces (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id`)
	ns.readName = in(`SELECT space, name FROM $.names WHERE key = $1 AND used > now() - interval '12 hours'`)
	ns.addName = in(`INSERT INTO $.names (key, space, name) VALUES ($1, $2, $3)
		ON CONFLICT (key) DO UPDATE SET used = now() RETURNING space, name`)
	ns.list, ns.inspect = in(fmt.Sprintf(listQuery, "")), in(fmt.Sprintf(listQuery, inspectOne))
	ns.registerSpace = in(`INSERT INTO $.spaces (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`)
	ns.readSpaces = in(`SELECT id, name FROM $.spaces WHERE id = $1 OR name = $2`)
	ns.purge = in(`WITH old AS MATERIALIZED (SELECT key FROM $.names WHERE used < now() - $1::interval ORDER BY used LIMIT 100),
		free AS MATERIALIZED (SELECT key FROM old WHERE pg_try_advisory_xact_lock(key))
		DELETE FROM $.names USING free WHERE names.key = free.key AND used < now() - $1::interval`)
}

func (ns *names) registeredAs(space string) (id int32, numeric bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	id, numeric = ns.registered[space]
	return id, numeric
}

// known reports whether the name of a lock is known to be there, and whose it is.
func (ns *names) known(hash int64) (key lock.Key, known bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	e, ok := ns.entered[hash]
	return e.key, ok && since(e.at) < rememberFor
}

func (ns *names) remember(hash int64, key lock.Key, at time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if len(ns.entered) >= rememberMost {
		clear(ns.entered)
	}
	ns.entered[hash] = entered{key, at}
}

// querier asks for one row.
type querier func(ctx context.Context, sql string, args []any, into ...any) error

// enter makes sure, before a lock is asked for, that the database has its name for its number,
// and its space as one of names: at its first use by this process, and then twice a day.
func (a *attempt) enter(ctx context.Context, query querier) error {
	if a.number.numeric || a.key.Space == Numbers {
		return nil
	}
	ns, hash := &a.locker.names, a.number.hash
	if known, ok := ns.known(hash); ok {
		return wantMine(a.key, known)
	}
	if err := a.enterSpace(ctx, query); err != nil {
		return err
	}
	at := time.Now()
	var there lock.Key
	err := query(ctx, ns.readName, []any{hash}, &there.Space, &there.Name)
	if errors.Is(err, pgx.ErrNoRows) {
		err = query(ctx, ns.addName, []any{hash, a.key.Space, a.key.Name}, &there.Space, &there.Name)
	}
	if err == nil {
		err = wantMine(a.key, there)
	}
	if err == nil {
		ns.remember(hash, a.key, at)
	}
	return err
}

func wantMine(key, there lock.Key) error {
	if there != key {
		return fmt.Errorf("%w: %s, and %s", ErrCollision, key, there)
	}
	return nil
}

// enterSpace makes a space one of names, if it is not registered as one of numbers. It is
// in the table as the one or the other, for good. The first to enter it decides, and others at
// the same time wait for that, as the name is the key of the table.
func (a *attempt) enterSpace(ctx context.Context, query querier) error {
	ns, space := &a.locker.names, a.key.Space
	if ns.isNamed(space) {
		return nil
	}
	var id *int32
	err := query(ctx, ns.readSpace, []any{space}, &id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = query(ctx, ns.addSpace, []any{space}, &id)
	}
	if errors.Is(err, pgx.ErrNoRows) { // somebody was faster
		err = query(ctx, ns.readSpace, []any{space}, &id)
	}
	switch {
	case err != nil:
		return err
	case id != nil:
		return clash(space)
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.named[space] = true
	return nil
}

// isNamed reports whether a space is known to be one of names.
func (ns *names) isNamed(space string) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.named[space]
}

// clash is the error for a space of which others go by the numbers: a lock by name would exclude
// none of them.
func clash(space string) error {
	return fmt.Errorf("%w: %q is registered as numeric, but not with this Locker", ErrSpaceClash, space)
}

// Register makes a space one whose names are numbers of 32 bits, in decimal, and gives it a
// lasting number among the spaces of this database. All processes register the same, before
// they use it. If the database knows the space otherwise, or has had locks with other names
// in it, the error is ErrSpaceClash, and nothing has changed.
func (l *Locker) Register(ctx context.Context, space string, id int32) error {
	if _, err := l.number(lock.Key{Space: space, Name: "0"}); err != nil {
		return err
	}
	if space == Numbers {
		return fmt.Errorf("pg: register %q: %w: it is that of raw numbers", space, lock.ErrInvalidName)
	}
	var clash error
	there := 0
	err := l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, l.names.registerSpace, id, space); err != nil {
			return err
		}
		rows, err := conn.Query(ctx, l.names.readSpaces, id, space)
		if err != nil {
			return err
		}
		clash, there = nil, 0
		var other *int32
		var name string
		_, err = pgx.ForEachRow(rows, []any{&other, &name}, func() error {
			there++
			switch {
			case other == nil:
				clash = errors.Join(clash, fmt.Errorf("pg: register %q: %w: it has been used with names", space, ErrSpaceClash))
			case *other != id || name != space:
				clash = errors.Join(clash, fmt.Errorf("pg: register %q as %d: %q is %d: %w", space, id, name, *other, ErrSpaceClash))
			}
			return nil
		})
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("pg: register %q: %w", space, err)
	case clash != nil:
		return clash
	}
	l.names.mu.Lock()
	defer l.names.mu.Unlock()
	l.names.registered[space] = id
	return nil
}

// PurgeNames forgets names that nobody has used for so long, two days or more, if nobody has
// or waits for their locks, and returns how many. For an instant each of them looks held.
// Names come back with their next use; spaces stay what they are. Fences that were given so
// long ago are forgotten with them: the next ones go on from the time of day, and only a
// clock that is set back by more could rewind them.
func (l *Locker) PurgeNames(ctx context.Context, unused time.Duration) (n int64, err error) {
	if unused < minUnused {
		return 0, fmt.Errorf("pg: %w: names unused for %v; at least %v", lock.ErrInvalidName, unused, minUnused)
	}
	err = l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, l.names.oldFences, unused)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("pg: purge names: %w", err)
	}
	for {
		var some int64
		err := l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			tag, err := conn.Exec(ctx, l.names.purge, unused)
			some = tag.RowsAffected()
			return err
		})
		n += some
		if err != nil || some == 0 {
			if err != nil {
				err = fmt.Errorf("pg: purge names: %w", err)
			}
			return n, err
		}
	}
}
