package pg

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/jackc/pgx/v5"
)

// List yields every advisory lock of the database that somebody has or waits for, of
// whatever program: one whose number is not known is one of Numbers. It needs none of the
// connections that locks have. What the role may not see of others' sessions is an error,
// after all entries, with the statement that cures it.
func (l *Locker) List(ctx context.Context) iter.Seq2[lock.Entry, error] {
	return func(yield func(lock.Entry, error) bool) {
		// All at once: what is done with them must not keep the session.
		var entries []lock.Entry
		err := l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			limited, cancel := context.WithTimeout(ctx, l.silence/2)
			defer cancel()
			rows, err := conn.Query(limited, l.names.list)
			if err != nil {
				return err
			}
			entries, err = pgx.CollectRows(rows, entry)
			return err
		})
		if err != nil {
			if ctx.Err() != nil {
				err = endOf(ctx)
			}
			yield(lock.Entry{}, fmt.Errorf("pg: list: %w", err))
			return
		}
		hidden := 0
		for _, e := range entries {
			if e.Activity == hiddenActivity {
				hidden++
				e.Activity = ""
			}
			if !yield(e, nil) {
				return
			}
		}
		if hidden > 0 {
			yield(lock.Entry{}, fmt.Errorf("pg: list: of %d sessions of other roles nothing but the locks is shown; to see them: GRANT pg_read_all_stats TO %s",
				hidden, quote(l.server.role)))
		}
	}
}

// hiddenActivity stands for that of a session of which the role may not know it.
const hiddenActivity = "?"

const listQuery = `SELECT l.classid::bigint, l.objid::bigint, l.objsubid::integer, l.mode, l.granted, coalesce(l.pid, 0),
	coalesce(a.application_name, ''), CASE WHEN a.query = '<insufficient privilege>' THEN '?' ELSE coalesce(a.state, '') END, a.query_start, a.state_change,
	coalesce(a.client_hostname, host(a.client_addr), ''),
	CASE WHEN l.granted THEN '{}'::integer[] ELSE pg_blocking_pids(l.pid) END,
	coalesce(n.space, s.name), n.name, coalesce(a.query, '')
	FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
	LEFT JOIN $.names n ON l.objsubid = 1 AND n.key = (l.classid::bigint << 32 | l.objid::bigint)
	LEFT JOIN $.spaces s ON l.objsubid = 2 AND s.id::bigint & 4294967295 = l.classid::bigint
	WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	ORDER BY l.classid, l.objid, l.objsubid, l.granted DESC, l.waitstart, l.pid`

func entry(rows pgx.CollectableRow) (lock.Entry, error) {
	var classid, objid int64
	var sub int
	var mode string
	var queryStart, since *time.Time
	var blockedBy []int32
	var space, name *string
	var query string
	e := lock.Entry{State: lock.StateHeld, Evidence: EvidenceSessionHolds, Info: &lock.LockInfo{}}
	err := rows.Scan(&classid, &objid, &sub, &mode, &e.Granted, &e.Info.PID, &e.Info.Cmd, &e.Activity, &queryStart, &since,
		&e.Info.Hostname, &blockedBy, &space, &name, &query)
	if err != nil {
		return e, err
	}
	if mode == "ShareLock" {
		e.Info.Mode = shared.name
	}
	if queryStart != nil {
		e.QueryStart = *queryStart
	}
	n := number{hash: classid<<32 | objid}
	if sub == 2 {
		n = number{numeric: true, space: int32(classid), id: int32(objid)}
	}
	if at, noted := notedSince(query, n); noted && e.Granted {
		e.Info.CreatedAt = at
	} else if since != nil {
		e.Info.CreatedAt = *since
	}
	for _, pid := range blockedBy {
		e.BlockedBy = append(e.BlockedBy, int(pid))
	}
	switch {
	case name != nil:
		e.Key = lock.Key{Space: *space, Name: *name}
	case space != nil:
		e.Key = lock.Key{Space: *space, Name: strconv.Itoa(int(n.id))}
	default:
		e.Key = lock.Key{Space: Numbers, Name: n.String()}
	}
	return e, nil
}
