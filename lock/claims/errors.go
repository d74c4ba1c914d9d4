package claims

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrClaimed is matched by the *ClaimedError that Claim returns.
	ErrClaimed = errors.New("node already locked")

	// ErrNotOwned is matched by the *NotOwnedError that Refresh and Release
	// return for a claim that the caller does not have, or no longer has.
	ErrNotOwned = errors.New("not the owner of the claim")

	// ErrFiles is returned when a change stands in the ledger, but the files in Dir/locks
	// could not follow. The next change puts them right.
	ErrFiles = errors.New("the ledger has the change, but the files have not")

	// ErrLifetime is returned when lock_timeout in meta.json can't be understood, or is out
	// of range.
	ErrLifetime = errors.New("lock_timeout is not a duration from 1s to 1h")
)

// ClaimedError is returned, as a pointer, when a node is claimed, by somebody else or by
// the caller: Claim.Owner says by whom. It matches ErrClaimed.
type ClaimedError struct {
	Owner string // the caller
	Claim Claim  // the claim that there is
}

func (e *ClaimedError) Error() string {
	if e.Claim.Owner == e.Owner {
		return fmt.Sprintf("claims: %q has node %s itself, since %s, until %s; go on with it, refresh it to make it last longer, or release it",
			e.Owner, e.Claim.NodeID, e.Claim.AcquiredAt.Format(time.RFC3339), e.Claim.ExpiresAt.Format(time.RFC3339))
	}
	return fmt.Sprintf("claims: node %s is claimed by %q since %s, until %s; work on another one, or wait",
		e.Claim.NodeID, e.Claim.Owner, e.Claim.AcquiredAt.Format(time.RFC3339), e.Claim.ExpiresAt.Format(time.RFC3339))
}

// Is makes the error match ErrClaimed.
func (e *ClaimedError) Is(target error) bool { return target == ErrClaimed }

// NotOwnedError says what there is instead of the caller's claim. It matches
// ErrNotOwned.
type NotOwnedError struct {
	NodeID, Owner string
	Claim         *Claim // nil if there is none; with the same Owner, it has expired
}

func (e *NotOwnedError) Error() string {
	switch {
	case e.Claim == nil:
		return fmt.Sprintf("claims: %q has no claim on node %s; it may have been released, or reaped", e.Owner, e.NodeID)
	case e.Claim.Owner == e.Owner:
		return fmt.Sprintf("claims: the claim of %q on node %s has expired, %s; claim it anew",
			e.Owner, e.NodeID, e.Claim.ExpiresAt.Format(time.RFC3339))
	}
	return fmt.Sprintf("claims: node %s is claimed by %q, not by %q", e.NodeID, e.Claim.Owner, e.Owner)
}

// Is makes the error match ErrNotOwned.
func (e *NotOwnedError) Is(target error) bool { return target == ErrNotOwned }
