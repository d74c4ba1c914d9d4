package pg

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// holderPatience bounds the look at who is in the way.
const holderPatience = 2 * time.Second

// locked describes who is in the way, as far as it can be told.
func (a *attempt) locked(ctx context.Context) *lock.ErrLocked {
	locked := &lock.ErrLocked{Path: a.key.String(), State: lock.StateHeld, Evidence: EvidenceSessionHolds}
	limited, cancel := context.WithTimeout(ctx, holderPatience)
	defer cancel()
	if a.conn == nil || a.conn.Conn().IsClosed() {
		return locked
	}
	where := "l.objsubid = 1 AND (l.classid::bigint << 32 | l.objid::bigint) = $1"
	if a.number.numeric {
		where = "l.objsubid = 2 AND l.classid::bigint = $1::integer::bigint & 4294967295 AND l.objid::bigint = $2::integer::bigint & 4294967295"
	}
	info := lock.LockInfo{}
	var mode string
	var since *time.Time
	err := a.query(limited, `SELECT coalesce(l.pid, 0), l.mode, coalesce(s.application_name, ''), coalesce(s.client_hostname, host(s.client_addr), ''), s.state_change
		FROM pg_locks l LEFT JOIN pg_stat_activity s USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND `+where+` LIMIT 1`, a.number.args(), &info.PID, &mode, &info.Cmd, &info.Hostname, &since)
	if err != nil {
		return locked
	}
	if since != nil {
		info.CreatedAt = *since
	}
	info.Mode = modeName(mode)
	locked.Info = &info
	return locked
}

// modeName is LockInfo.Mode for pg_locks.mode.
func modeName(mode string) string {
	if mode == "ShareLock" {
		return shared.name
	}
	return exclusive.name
}
