package pg

import (
	"errors"

	"github.com/holdfast-go/holdfast/lock/evidence"
)

// Errors that opening and registering return.
var (
	// ErrServer is returned for a server that won't do, or not for this role. The
	// message says why, and what cures it.
	ErrServer = errors.New("locks can't be had of this server")

	// ErrPooler is returned when something between us and the server hands a session to
	// others: locks would be held by nobody in particular.
	ErrPooler = errors.New("a connection pooler is in between; connect to the server itself (locks of a transaction, AcquireTx, work through one)")

	// ErrSpaceClash is returned when a space is registered that has another number, or has
	// been used with names, or with a number that another space has; and for locks of a
	// space that others have registered, and this Locker has not.
	ErrSpaceClash = errors.New("two spaces can't have one number, nor one space two, nor numbers and names")
)

// Errors that acquiring returns, beside those of package lock.
var (
	// ErrCollision is returned for two names whose locks have one number. Rename one.
	ErrCollision = errors.New("two names have one lock number")

	// ErrDeadlock is returned when the server has found that waiters wait for each other:
	// one of them gets this error, and keeps the locks that it has. Release them, and
	// begin again.
	ErrDeadlock = errors.New("deadlock: those who wait, wait for each other")

	// ErrTooManyLocks is returned when the Locker has as many locks as Options.MaxLocks
	// allows, or the server has room for no more. The message has the setting, and the
	// statement that raises it.
	ErrTooManyLocks = errors.New("too many locks")
)

// EvidenceSessionHolds is the evidence for a holder: the server drops the lock of a session
// that ends.
const EvidenceSessionHolds evidence.Evidence = "a session of the database holds the lock"

// EvidenceNoSession is the evidence for a free lock. One of a prepared transaction, which no
// session has either, is evidence.Prepared.
const EvidenceNoSession evidence.Evidence = "no session of the database has it"

var (
	// errSilent is why a session is given up: it can't be told from one whose network is cut.
	errSilent = errors.New("the server has not been heard of in time")
	// errStale says that a connection was dead before anything was asked of it.
	errStale = errors.New("stale connection")
	// errBrokenOff says that a wait was broken off, to release a lock of the same session,
	// and is to begin again.
	errBrokenOff = errors.New("wait broken off")
	// errElsewhere says that a wait has to begin with another session.
	errElsewhere = errors.New("to be had with another session")
)
