package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// EvidenceLeaseHolds is the evidence for a holder: the cluster drops the key of a lease that
// nobody keeps alive.
const EvidenceLeaseHolds evidence.Evidence = "a lease of the cluster holds the lock"

// EvidenceNoLease is the evidence for a free lock.
const EvidenceNoLease evidence.Evidence = "no lease of the cluster has it"

// Why a lock is lost.
var (
	errSilent  = errors.New("the cluster has not been heard of in time")
	errRevoked = errors.New("the lease was revoked, or has run out")
	errDeleted = errors.New("its key was deleted")
	// errUntold says that a release has had no answer.
	errUntold = errors.New("the cluster has not confirmed the release")
)

var (
	errClosed = errors.New("the Locker is closed")
	// errAgain says that our key, or its lease, has gone while we waited, and that the wait
	// begins anew.
	errAgain = errors.New("the place in the queue has gone")
)

// codeOf is the code of an error of the client, whatever it is wrapped in.
func codeOf(err error) codes.Code {
	var of rpctypes.EtcdError
	if errors.As(err, &of) {
		return of.Code()
	}
	return status.Code(err)
}

// definite reports whether an error says that the request has done nothing, and that asking
// again would not help. After any other error, the request may have been carried out, or still
// will be.
func definite(err error) bool {
	switch codeOf(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.OutOfRange, codes.Unimplemented:
		return !errors.Is(rpctypes.Error(err), rpctypes.ErrAuthOldRevision) // comes with each change of users
	case codes.FailedPrecondition:
		return !errors.Is(rpctypes.Error(err), rpctypes.ErrNotLeader)
	case codes.ResourceExhausted:
		return errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace)
	}
	return false
}

// endOf is the error of a context that has ended, with its cause.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case errors.Is(cause, errClosed):
		return errClosed
	case cause == err:
		cause = nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", lock.ErrTimeout, err)
	}
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
