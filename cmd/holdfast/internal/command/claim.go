package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/signal"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
)

// claimFlags adds the flags of all commands about claims.
func claimFlags(flags *flag.FlagSet) func(dir string) (*claims.Manager, error) {
	var skew time.Duration
	duration(flags, &skew, "skew")
	at := ledgerFlags(flags, true)
	return func(dir string) (*claims.Manager, error) {
		l, err := at(dir)
		return &claims.Manager{Dir: dir, Ledger: l, Skew: skew}, err
	}
}

// owned reads the flags and arguments of a command for one owner and one node.
func (a *app) owned(name string, args []string) (m *claims.Manager, node, owner string, code int, ok bool) {
	flags := newFlags(name)
	flags.StringVar(&owner, "owner", "", "")
	at := claimFlags(flags)
	if code, ok := a.parse(flags, args); !ok {
		return nil, "", "", code, false
	}
	switch {
	case owner == "":
		return nil, "", "", a.misuse(name, "-owner is missing"), false
	case flags.NArg() != 2:
		return nil, "", "", a.misuse(name, fmt.Sprintf("DIR and NODE are wanted, not %d arguments", flags.NArg())), false
	}
	m, err := at(flags.Arg(0))
	if err != nil {
		return nil, "", "", a.failLedger(err), false
	}
	return m, flags.Arg(1), owner, exitOK, true
}

func (a *app) claimTake(args []string) int {
	m, node, owner, code, ok := a.owned("claim take", args)
	if !ok {
		return code
	}
	return a.claimed(m.Claim(context.Background(), node, owner))
}

func (a *app) claimRefresh(args []string) int {
	m, node, owner, code, ok := a.owned("claim refresh", args)
	if !ok {
		return code
	}
	return a.claimed(m.Refresh(context.Background(), node, owner))
}

func (a *app) claimRelease(args []string) int {
	m, node, owner, code, ok := a.owned("claim release", args)
	if !ok {
		return code
	}
	return a.done(m.Release(context.Background(), node, owner))
}

func (a *app) claimList(args []string) int {
	flags := newFlags("claim list")
	at := claimFlags(flags)
	dir, code, ok := a.parseOne(flags, args, "DIR")
	if !ok {
		return code
	}
	m, err := at(dir)
	if err != nil {
		return a.failLedger(err)
	}
	active, err := m.Active()
	if err != nil {
		return a.failLedger(err)
	}
	return a.printAll(active)
}

func (a *app) claimReap(args []string) int {
	flags := newFlags("claim reap")
	var every time.Duration
	duration(flags, &every, "every")
	at := claimFlags(flags)
	dir, code, ok := a.parseOne(flags, args, "DIR")
	if !ok {
		return code
	}
	if isSet(flags, "every") && every == 0 {
		return a.misuse(flags.Name(), "-every 0 is no interval")
	}
	m, err := at(dir)
	if err != nil {
		return a.failLedger(err)
	}
	if every == 0 {
		ended, err := m.Reap(context.Background())
		return max(a.printAll(ended), a.done(err))
	}
	if _, err := folder(dir); err != nil { // now, and not each time
		return a.fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), caughtSignals()...)
	defer stop()
	err = m.ReapEvery(ctx, every, func(ended []claims.Claim, err error) {
		a.printAll(ended)
		a.done(err)
	})
	if ctx.Err() != nil {
		return exitOK
	}
	return a.failLedger(err)
}

// claimed prints a claim that was made. One that is in the ledger stands, whatever became of
// its file.
func (a *app) claimed(c claims.Claim, err error) int {
	if code := a.done(err); code != exitOK {
		return code
	}
	return a.print(c)
}

func (a *app) done(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, claims.ErrFiles):
		a.fail(err)
		return exitOK
	case errors.Is(err, claims.ErrClaimed), errors.Is(err, claims.ErrNotOwned):
		a.fail(err)
		return max(exitNotHad, a.print(conflictOf(err)))
	}
	return a.failLedger(err)
}

// conflict is printed when a claim could not be made: the claim that is there, and in what
// way it differs. Without a claim there is only the node.
type conflict struct {
	NodeID string `json:"node_id"`
	*claims.Claim
	Conflict string `json:"conflict"`
}

func conflictOf(err error) conflict {
	var claimed *claims.ClaimedError
	var notOwned *claims.NotOwnedError
	switch {
	case errors.As(err, &claimed) && claimed.Claim.Owner == claimed.Owner:
		return conflict{claimed.Claim.NodeID, &claimed.Claim, "own"}
	case errors.As(err, &claimed):
		return conflict{claimed.Claim.NodeID, &claimed.Claim, "claimed"}
	case !errors.As(err, &notOwned):
		return conflict{}
	case notOwned.Claim == nil:
		return conflict{notOwned.NodeID, nil, "none"}
	case notOwned.Claim.Owner == notOwned.Owner:
		return conflict{notOwned.NodeID, notOwned.Claim, "expired"}
	}
	return conflict{notOwned.NodeID, notOwned.Claim, "claimed"}
}

func (a *app) printAll(all []claims.Claim) int {
	for _, c := range all {
		if code := a.print(c); code != exitOK {
			return code
		}
	}
	return exitOK
}
