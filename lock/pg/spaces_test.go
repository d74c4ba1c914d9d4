package pg_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
)

// TestRegisterAll: who has learned the spaces of others meets their locks.
func TestRegisterAll(t *testing.T) {
	conn := database(t)
	theirs, ours := open(t, pg.Options{Conn: conn}), open(t, pg.Options{Conn: conn})
	check(t, ours.RegisterAll(limited(t)))
	check(t, theirs.Register(limited(t), "accounts", -7))
	named := lock.Key{Space: "agents", Name: "a"}
	check(t, acquire(t, theirs, named).Release())
	k := lock.Key{Space: "accounts", Name: "42"}
	acquire(t, theirs, k)
	_, err := ours.TryAcquire(limited(t), k)
	wantIs(t, err, pg.ErrSpaceClash)
	check(t, ours.RegisterAll(limited(t)))
	var locked *lock.LockedError
	if _, err := ours.TryAcquire(limited(t), k); !errors.As(err, &locked) {
		t.Errorf("error is %v, want that it is locked", err)
	}
	if all, err := ours.Holders(limited(t), k); len(all) != 1 || err != nil {
		t.Errorf("holders: %+v, %v", all, err)
	}
	check(t, acquire(t, ours, named).Release())
}
