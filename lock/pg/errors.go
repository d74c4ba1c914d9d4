package pg

import (
	"errors"

	"github.com/holdfast-go/holdfast/lock"
)

// Errors that opening and registering return.
var (
	// ErrSpaceClash is returned when a space is registered with a number that
	// another one has, or has another number.
	ErrSpaceClash = errors.New("two spaces can't have one number, nor one space two")

	// ErrPooler is returned when there is something between us and the server
	// that hands a session to others: locks would be held by nobody in particular.
	ErrPooler = errors.New("a connection pooler is in between; connect to the server itself, or let it pool by session without changing process ids")
)

// Errors that acquiring returns, beside those of package lock.
var (
	// ErrCollision is returned for two names whose locks have one number. Rename one.
	ErrCollision = errors.New("two names have one lock number")

	// ErrDeadlock is returned when the server has found that those who wait, wait
	// for each other. Release what you hold, and begin again.
	ErrDeadlock = errors.New("deadlock: those who wait, wait for each other")
)

// SessionHolds is the evidence for a holder: the server drops the lock of a session
// that ends.
const SessionHolds lock.Evidence = "a session of the database holds the lock"
