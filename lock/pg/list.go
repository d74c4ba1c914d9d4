package pg

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/jackc/pgx/v5"
)

// List yields every advisory lock of the database that a session has or waits for, of
// whatever program. A lock with an unknown number is one of Numbers. List needs none of the
// connections that locks have. If the role may not see others' sessions, the last that comes
// is an error with the statement that cures it.
func (l *Locker) List(ctx context.Context) iter.Seq2[lock.Status, error] {
	return func(yield func(lock.Status, error) bool) {
		// All at once: what is done with them must not keep the session.
		all, err := l.sessions(ctx, l.names.list)
		if err != nil {
			yield(lock.Status{}, fmt.Errorf("pg: list: %w", err))
			return
		}
		hidden := 0
		for len(all) > 0 {
			n := 0
			for n < len(all) && all[n].key == all[0].key {
				if all[n].hidden {
					hidden++
				}
				n++
			}
			if !yield(statusOf(all[0].key, all[:n]), nil) {
				return
			}
			all = all[n:]
		}
		if hidden > 0 {
			yield(lock.Status{}, fmt.Errorf("pg: list: of %d sessions of other roles nothing but the locks is shown; to see them: GRANT pg_read_all_stats TO %s",
				hidden, quote(l.server.role)))
		}
	}
}

// Inspect looks at one lock, as List does at all, and needs none of the connections that locks
// have. What the role may not see of others' sessions is left out. The error matches
// lock.ErrInvalidName, or ErrSpaceClash, for a key that Acquire would refuse for that, and
// ErrCollision if the session that was found uses the number by another name.
func (l *Locker) Inspect(ctx context.Context, key lock.Key) (lock.Status, error) {
	n, err := l.number(key)
	if err != nil {
		return lock.Status{}, err
	}
	all, err := l.sessions(ctx, l.names.inspect, n.inLocks()...)
	if err == nil && !n.numeric && key.Space != Numbers {
		err = l.wantNamed(ctx, key)
		if err == nil && len(all) > 0 && all[0].key.Space != Numbers {
			err = wantMine(key, all[0].key)
		}
	}
	if err != nil {
		return lock.Status{}, fmt.Errorf("pg: inspect %s: %w", key, err)
	}
	return statusOf(key, all), nil
}

// wantNamed checks that a space is not one of numbers, to others.
func (l *Locker) wantNamed(ctx context.Context, key lock.Key) error {
	if l.names.isNamed(key.Space) {
		return nil
	}
	var id *int32
	err := l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, l.names.readSpace, key.Space).Scan(&id)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err == nil && id != nil:
		return clash(key.Space)
	case ctx.Err() != nil:
		return endOf(ctx)
	}
	return err
}

// sessions asks which sessions have or want locks: those of one lock come together, holders
// first.
func (l *Locker) sessions(ctx context.Context, query string, args ...any) (all []wanting, err error) {
	err = l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		limited, cancel := context.WithTimeout(ctx, l.silence/2)
		defer cancel()
		rows, err := conn.Query(limited, query, args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, readWanting)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = endOf(ctx)
	}
	return all, err
}

// wanting is a session that has a lock, or waits for it.
type wanting struct {
	lock.Process
	key     lock.Key
	granted bool
	shared  bool
	hidden  bool // its role may not see more than the lock
}

// statusOf puts together what the sessions say of their lock.
func statusOf(key lock.Key, all []wanting) lock.Status {
	s := lock.Status{Key: key, Path: key.String(), State: evidence.Free, Evidence: EvidenceNoSession}
	prepared := false
	for _, w := range all {
		if !w.granted {
			w.Since = w.QueryStart
			s.Waiters = append(s.Waiters, w.Process)
			continue
		}
		s.State, s.Evidence, s.Shared = evidence.Held, EvidenceSessionHolds, s.Shared || w.shared
		if prepared = prepared || w.PID == 0; w.PID != 0 {
			s.Processes = append(s.Processes, w.Process)
		}
	}
	if prepared {
		s.Evidence = evidence.Prepared
	}
	if len(s.Processes) == 1 {
		s.Info = s.Processes[0].Info
	}
	return s
}

// hiddenActivity stands for the activity of a session that the role may not see.
const hiddenActivity = "?"

// inspectOne is what Inspect adds to listQuery.
const inspectOne = ` AND l.classid::bigint = $1 AND l.objid::bigint = $2 AND l.objsubid = $3`

const listQuery = `SELECT l.classid::bigint, l.objid::bigint, l.objsubid::integer, l.mode, l.granted, coalesce(l.pid, 0),
	coalesce(a.application_name, ''), CASE WHEN a.query = '<insufficient privilege>' THEN '?' ELSE coalesce(a.state, '') END, a.query_start, a.state_change,
	coalesce(a.client_hostname, host(a.client_addr), ''),
	CASE WHEN l.granted THEN '{}'::integer[] ELSE pg_blocking_pids(l.pid) END,
	coalesce(n.space, s.name), n.name, coalesce(a.query, '')
	FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
	LEFT JOIN $.names n ON l.objsubid = 1 AND n.key = (l.classid::bigint << 32 | l.objid::bigint)
	LEFT JOIN $.spaces s ON l.objsubid = 2 AND s.id::bigint & 4294967295 = l.classid::bigint
	WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())%s
	ORDER BY l.classid, l.objid, l.objsubid, l.granted DESC, l.waitstart, l.pid`

func readWanting(rows pgx.CollectableRow) (w wanting, err error) {
	var classid, objid int64
	var sub int
	var mode string
	var queryStart, since *time.Time
	var blockedBy []int32
	var space, name *string
	var host, query string
	err = rows.Scan(&classid, &objid, &sub, &mode, &w.granted, &w.PID, &w.Cmd, &w.Activity, &queryStart, &since,
		&host, &blockedBy, &space, &name, &query)
	if err != nil {
		return w, err
	}
	if w.hidden = w.Activity == hiddenActivity; w.hidden {
		w.Activity = ""
	}
	w.shared = mode == "ShareLock"
	if queryStart != nil {
		w.QueryStart = *queryStart
	}
	n := number{hash: classid<<32 | objid}
	if sub == 2 {
		n = number{numeric: true, space: int32(classid), id: int32(objid)}
	}
	if at, noted := notedSince(query, n); noted && w.granted {
		since = &at
	}
	if since != nil { // else the role may not see it
		w.Info = &evidence.Claim{PID: w.PID, CreatedAt: *since, Cmd: w.Cmd, Hostname: host}
		if w.shared {
			w.Info.Mode = shared.name
		}
	}
	for _, pid := range blockedBy {
		w.BlockedBy = append(w.BlockedBy, int(pid))
	}
	switch {
	case name != nil:
		w.key = lock.Key{Space: *space, Name: *name}
	case space != nil:
		w.key = lock.Key{Space: *space, Name: strconv.Itoa(int(n.id))}
	default:
		w.key = lock.Key{Space: Numbers, Name: n.String()}
	}
	return w, nil
}
