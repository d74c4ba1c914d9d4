package command

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// Database is what the flag -pg leads to: an engine whose locks are held by sessions of a
// server. Its List yields the entries of one lock together, its holders first.
type Database interface {
	lock.SharedLocker
	// Name tells people which one it is, without anything that is secret.
	Name() string
	// Holders returns the sessions that have a lock. The error matches
	// lock.ErrInvalidName for a key that can't be a lock's.
	Holders(ctx context.Context, key lock.Key) ([]Session, error)
	// EndSession ends a session that Holders has returned, and no other that has its pid
	// by now. It reports whether it was still there.
	EndSession(ctx context.Context, s Session) (there bool, err error)
	// LastFence returns the last fence of a lock; 0 if none is known.
	LastFence(ctx context.Context, key lock.Key) (int64, error)
	// Close is called when all locks are released.
	Close()
}

// Session is a session of the server that has a lock.
type Session struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"` // zero if it may not be seen
	Cmd     string    `json:"cmd,omitempty"`
	Host    string    `json:"hostname,omitempty"`
	Locks   int       `json:"locks"` // how many end with it
}

// Open connects to a database. For an impossible connection string the error is a UsageError;
// no error has anything secret from that string. label is what others are told of us.
type Open func(ctx context.Context, conn, label string) (Database, error)

// UsageError says what is wrong with a connection string.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// connectPatience bounds the time until a database has answered.
const connectPatience = 30 * time.Second

// databaseFlag says which database has the locks.
const databaseFlag = "pg"

// databaseFlag adds the flag, and returns what is to have its value; nil stands for files.
func (a *app) databaseFlag(flags *flag.FlagSet) (conn **string) {
	conn = new(*string)
	if a.open != nil {
		flags.Func(databaseFlag, "", func(text string) error {
			*conn = &text
			return nil
		})
	}
	return conn
}

// noDatabase follows the message that this program has no such flag.
const noDatabase = "; the holdfast that has it: go install github.com/holdfast-go/holdfast/lock/pg/cmd/holdfast@latest"

// notOfDatabases are the flags of "holdfast run" that are for lock files alone.
var notOfDatabases = []struct{ name, why string }{
	{"nested", "children can't have a lock in a database, too"},
	{"close", "a lock in a database is holdfast's alone in any case"},
	{"mode", "a lock in a database has no file"},
	{"stale-after", "a database drops the lock of a session that ends, and no age counts"},
	{"require-kernel-lock", "in a database the server knows who has a lock, and no kernel is asked"},
}

// wrongName says why a lock can't be called so.
func (o *runOptions) wrongName(name string) string {
	if o.conn != nil {
		return notKey(name)
	}
	return noLock(name)
}

// where opens what has the locks: these files, if conn is nil. Call leave when they are
// released. When ok is false, the command is over, with this exit code.
func (a *app) where(command string, conn *string, f lock.File) (at locks, leave func(), code int, ok bool) {
	if conn == nil {
		return files{f}, func() {}, exitOK, true
	}
	d, code, ok := a.database(command, *conn, f.Cmd)
	if !ok {
		return nil, nil, code, false
	}
	return d, d.Close, exitOK, true
}

// database opens the one that a command is to use. When ok is false, the command is over,
// with this exit code.
func (a *app) database(command, conn, label string) (d *database, code int, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), connectPatience)
	defer cancel()
	db, err := a.open(ctx, conn, label)
	var wrong UsageError
	switch {
	case errors.As(err, &wrong):
		return nil, a.misuse(command, "-pg: "+oneLine(wrong)), false
	case err != nil:
		return nil, a.fail(err), false
	}
	return &database{Database: db, ours: map[int]bool{}}, exitOK, true
}
