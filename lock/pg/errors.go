package pg

import (
	"errors"

	"github.com/holdfast-go/holdfast/lock"
)

// Errors that opening and registering return.
var (
	// ErrSpaceClash is returned when a space is registered with a number that
	// another one has, or has another number, or has been used with names; and for
	// locks of a space that others have registered, and this Locker has not.
	ErrSpaceClash = errors.New("two spaces can't have one number, nor one space two, nor numbers and names")

	// ErrPooler is returned when there is something between us and the server
	// that hands a session to others: locks would be held by nobody in particular.
	ErrPooler = errors.New("a connection pooler is in between; connect to the server itself, or let it pool by session without changing process ids")
)

// Errors that acquiring returns, beside those of package lock.
var (
	// ErrCollision is returned for two names whose locks have one number. Rename one.
	ErrCollision = errors.New("two names have one lock number")

	// ErrDeadlock is returned when the server has found that those who wait, wait
	// for each other. Release what you hold, and begin again. It can't find this
	// among nested holds, whose sessions are different ones; see the package documentation.
	ErrDeadlock = errors.New("deadlock: those who wait, wait for each other")
)

// EvidenceSessionHolds is the evidence for a holder: the server drops the lock of a session
// that ends.
const EvidenceSessionHolds lock.Evidence = "a session of the database holds the lock"
