package pg

import (
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What tests reach into. None of it may be called while the Locker is in use.

func (l *Locker) SetHash(hash func(lock.Key) int64) { l.hash = hash }

func (l *Locker) SetUnlockPatience(d time.Duration) { l.unlockPatience = d }

// OnCleaned is called after each failed call, with whether the lock had been granted.
func (l *Locker) OnCleaned(f func(had bool)) { l.cleaned = f }

func (l *Locker) Pool() *pgxpool.Pool { return l.pool }

// Places returns how many connections are taken by those who brought no hold.
func (l *Locker) Places() int { return len(l.general) + len(l.tries) }

var Hash = hash
