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
// whatever program: one whose number is not known has the numbers themselves for a
// key, with no space if it is of 64 bits.
func (l *Locker) List(ctx context.Context) iter.Seq2[lock.Entry, error] {
	return func(yield func(lock.Entry, error) bool) {
		rows, err := l.pool.Query(ctx, `SELECT l.classid::bigint, l.objid::bigint, l.objsubid::integer, l.mode, l.granted, coalesce(l.pid, 0),
			coalesce(a.application_name, ''), coalesce(a.state, ''), a.query_start, a.state_change,
			coalesce(a.client_hostname, host(a.client_addr), ''),
			CASE WHEN l.granted THEN '{}'::integer[] ELSE pg_blocking_pids(l.pid) END,
			coalesce(n.space, s.name), n.name
			FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
			LEFT JOIN holdfast_names n ON l.objsubid = 1 AND n.key = (l.classid::bigint << 32 | l.objid::bigint)
			LEFT JOIN holdfast_spaces s ON l.objsubid = 2 AND s.id::bigint & 4294967295 = l.classid::bigint
			WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			ORDER BY l.classid, l.objid, l.objsubid, l.granted DESC, l.waitstart, l.pid`)
		if err != nil {
			yield(lock.Entry{}, fmt.Errorf("pg: list: %w", err))
			return
		}
		// All at once: what is done with them must not keep the connection.
		entries, err := pgx.CollectRows(rows, entry)
		if err != nil {
			yield(lock.Entry{}, fmt.Errorf("pg: list: %w", err))
			return
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func entry(rows pgx.CollectableRow) (lock.Entry, error) {
	var classid, objid int64
	var sub int
	var mode string
	var queryStart, since *time.Time
	var blockedBy []int32
	var space, name *string
	e := lock.Entry{State: lock.StateHeld, Evidence: EvidenceSessionHolds, Info: &lock.LockInfo{}}
	err := rows.Scan(&classid, &objid, &sub, &mode, &e.Granted, &e.Info.PID, &e.Info.Cmd, &e.Activity, &queryStart, &since,
		&e.Info.Hostname, &blockedBy, &space, &name)
	if err != nil {
		return e, err
	}
	e.Info.Mode = modeName(mode)
	if queryStart != nil {
		e.QueryStart = *queryStart
	}
	if since != nil {
		e.Info.CreatedAt = *since
	}
	for _, pid := range blockedBy {
		e.BlockedBy = append(e.BlockedBy, int(pid))
	}
	switch {
	case sub == 1 && name != nil:
		e.Key = lock.Key{Space: *space, Name: *name}
	case sub == 1:
		e.Key = lock.Key{Name: strconv.FormatInt(classid<<32|objid, 10)}
	default:
		e.Key = lock.Key{Space: strconv.FormatInt(int64(int32(classid)), 10), Name: strconv.FormatInt(int64(int32(objid)), 10)}
		if space != nil {
			e.Key.Space = *space
		}
	}
	return e, nil
}
