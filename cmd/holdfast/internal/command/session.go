package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
	"github.com/spf13/cobra"
)

// What "holdfast hold --sh" sets beside what commands under a lock find.
const (
	nonceVar  = "HOLDFAST_NONCE"
	keeperVar = "HOLDFAST_KEEPER" // pid
	ownerVar  = "HOLDFAST_OWNER"  // pid
	heldVar   = "HOLDFAST_HELD"   // FileHold.Environ
)

// endsWithin bounds how long a keeper may take to release the lock.
const endsWithin = 30 * time.Second

// releaseCommand has the keeper of a session release the lock, and waits until it has.
func (a *app) releaseCommand(parent *cobra.Command) {
	a.command(parent, "release", func(_ *cobra.Command, args []string) (int, error) {
		switch {
		case len(args) != 2:
			return 0, misused("LOCK and NONCE are wanted, not %d arguments", len(args))
		case args[0] == "" || !isNonce(args[1]):
			return 0, misused("NONCE is what hold has printed: letters and digits")
		}
		ctx, cancel := context.WithTimeout(context.Background(), endsWithin)
		defer cancel()
		return a.endSession(ctx, lock.File{Path: args[0]}, args[1]), nil
	})
}

// isNonce reports whether a text can be one.
func isNonce(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// endSession asks the keeper of a session to release the lock, and waits for its exit, until
// ctx ends.
func (a *app) endSession(ctx context.Context, file lock.File, nonce string) int {
	status, err := file.Inspect(ctx)
	if err != nil {
		return a.fail(err)
	}
	if !hasNonce(status, nonce) {
		return a.noSession(status, nonce)
	}
	keeper, err := findKeeper(ctx, file, status.Info)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return a.over(file, nonce)
	case err != nil:
		a.say("this session was not ended: " + oneLine(err))
		fileWords.describe(a.stderr, status)
		return exitError
	}
	defer keeper.close()
	if err := requestRelease(keeper.process, nonce); errors.Is(err, os.ErrProcessDone) {
		return a.over(file, nonce)
	} else if err != nil {
		a.say(fmt.Sprintf("its keeper, pid %d, could not be asked to release the lock: %s", status.Info.PID, oneLine(err)))
		return exitError
	}
	select {
	case <-keeper.exit.Exited():
	case <-ctx.Done():
		a.say(fmt.Sprintf("the keeper of the session, pid %d, has not released the lock yet; it may be stopped, and does so when it goes on", status.Info.PID))
		return exitError
	}
	if status, err := file.Inspect(context.Background()); err == nil && status.Info != nil && status.Info.Nonce == nonce {
		a.say("the keeper has ended, and its lock file is still there")
		fileWords.describe(a.stderr, status)
		return exitError
	}
	return exitOK
}

// hasNonce reports whether a lock is held by a claim with this nonce, or may be.
func hasNonce(s lock.Status, nonce string) bool {
	return s.Info != nil && s.Info.Nonce == nonce && (s.State == evidence.Held || s.State == evidence.Unknown)
}

// sessionKeeper is a process that is proven to be the keeper of a session. Where the system
// can promise that, its pid is nobody else's until close.
type sessionKeeper struct {
	process *os.Process
	exit    *platform.Exit
}

func (k *sessionKeeper) close() {
	k.exit.Stop()
	_ = k.process.Release()
}

// findKeeper returns the keeper that a claim names. The error is os.ErrProcessDone if it has
// ended.
//
// The process is opened first (a pidfd, a handle), and proven afterwards. It had the pid while
// the keeper was alive; the keeper had the pid before and has it still. So the two are one.
// Where the system has nothing to open, and tells only that a pid is in use (macOS, the BSDs),
// the claim and its kernel lock are the proof.
func findKeeper(ctx context.Context, file lock.File, claim *evidence.Claim) (k *sessionKeeper, err error) {
	self, host := platform.Self(), platform.ThisHost()
	switch {
	case claim.OwnerPID == 0:
		return nil, fmt.Errorf("pid %d has the lock for itself, and is no session's keeper", claim.PID)
	case claim.BootID != host.BootID || host.BootID == "" && claim.Hostname != host.Name:
		return nil, fmt.Errorf("its keeper, pid %d, is on another host, or was before this one restarted", claim.PID)
	case claim.PIDNamespace != self.PIDNamespace:
		return nil, fmt.Errorf("its keeper, pid %d, can't be reached from this pid namespace (container)", claim.PID)
	}
	process, err := os.FindProcess(claim.PID)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = process.Release()
		}
	}()
	id := platform.Process{PID: claim.PID, Start: claim.Start, PIDFD: claim.PIDFD, PIDNamespace: claim.PIDNamespace, TimeNamespace: claim.TimeNamespace}
	exit, err := platform.WatchExit(id)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			exit.Stop()
		}
	}()
	alive := platform.Probe(id)
	now, err := file.Inspect(ctx)
	switch {
	case err != nil:
		return nil, err
	case alive == platform.Gone, alive == platform.Replaced, !hasNonce(now, claim.Nonce):
		return nil, os.ErrProcessDone
	case alive != platform.Alive && (alive != platform.Exists || now.State != evidence.Held):
		return nil, fmt.Errorf("it can't be told whether pid %d is its keeper", claim.PID)
	case !mayBeKeeper(claim.PID):
		return nil, fmt.Errorf("pid %d is no keeper that \"holdfast hold\" has started", claim.PID)
	}
	return &sessionKeeper{process, exit}, nil
}

// over says that a session has just ended by itself.
func (a *app) over(file lock.File, nonce string) int {
	status, err := file.Inspect(context.Background())
	if err != nil {
		return a.fail(err)
	}
	return a.noSession(status, nonce)
}

// noSession says that no session of that nonce has the lock: it has ended, or never was.
func (a *app) noSession(status lock.Status, nonce string) int {
	found := fmt.Sprintf("(%s: %s)", visible(status.Path), status.State)
	ended := status.Info != nil && status.Info.Nonce == nonce || status.Last != nil && status.Last.Info.Nonce == nonce
	if ended {
		a.say("this session has ended " + found)
	} else {
		a.say("no session " + nonce + " has this lock " + found + ": it has ended, or there never was one")
	}
	if status.State != evidence.Free || ended {
		fileWords.describe(a.stderr, status)
	}
	return exitEnded
}
