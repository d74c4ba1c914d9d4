package command

import (
	"context"
	"errors"
	"os/signal"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
	"github.com/spf13/cobra"
)

func (a *app) claimCommands(parent *cobra.Command) {
	var owner string
	var skew, every time.Duration
	add := func(name string, writes bool, run func(m *claims.Manager, rest []string) (int, error)) *cobra.Command {
		c := a.ledgerCommand(parent, name, writes, func(l ledger.Ledger, dir string, rest []string) (int, error) {
			return run(&claims.Manager{Dir: dir, Ledger: l, Skew: skew}, rest)
		})
		durationFlag(c.Flags(), &skew, "skew", "", "how much clocks may differ, `D`; 0 without it")
		return c
	}
	// Of one owner, and one node.
	owned := func(name string, run func(m *claims.Manager, node string) (claims.Claim, error)) {
		c := add(name, true, func(m *claims.Manager, rest []string) (int, error) {
			switch {
			case owner == "":
				return 0, misused("--owner is missing")
			case len(rest) != 1:
				return 0, misused("DIR and NODE are wanted, not %d arguments", 1+len(rest))
			}
			c, err := run(m, rest[0])
			// A claim that is in the ledger stands, whatever became of its file.
			if code := a.done(err); code != exitOK || c.NodeID == "" {
				return code, nil
			}
			return a.print(c), nil
		})
		c.Flags().StringVar(&owner, "owner", "", "whose claim it is: `ID`")
	}
	ctx := context.Background()
	owned("claim take", func(m *claims.Manager, node string) (claims.Claim, error) { return m.Claim(ctx, node, owner) })
	owned("claim refresh", func(m *claims.Manager, node string) (claims.Claim, error) { return m.Refresh(ctx, node, owner) })
	owned("claim release", func(m *claims.Manager, node string) (claims.Claim, error) {
		return claims.Claim{}, m.Release(ctx, node, owner)
	})
	add("claim list", false, func(m *claims.Manager, rest []string) (int, error) {
		if len(rest) > 0 {
			return 0, misused("one DIR is wanted, not %d", 1+len(rest))
		}
		active, err := m.Active()
		if err != nil {
			return 0, err
		}
		return a.printAll(active), nil
	})
	var reap *cobra.Command
	reap = add("claim reap", true, func(m *claims.Manager, rest []string) (int, error) {
		switch {
		case len(rest) > 0:
			return 0, misused("one DIR is wanted, not %d", 1+len(rest))
		case every > 0:
			return a.reapEvery(m, every)
		case reap.Flags().Changed("every"):
			return 0, misused("--every 0 is no interval")
		}
		ended, err := m.Reap(ctx)
		return max(a.printAll(ended), a.done(err)), nil
	})
	unbuffer(reap)
	durationFlag(reap.Flags(), &every, "every", "", "do so again every `D`, until a signal comes")
}

func (a *app) reapEvery(m *claims.Manager, every time.Duration) (int, error) {
	if _, err := folder(m.Dir); err != nil { // now, and not each time
		return a.fail(err), nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), caughtSignals()...)
	defer stop()
	err := m.ReapEvery(ctx, every, func(ended []claims.Claim, err error) {
		a.printAll(ended)
		a.done(err)
	})
	if ctx.Err() != nil {
		return exitOK, nil
	}
	return 0, err
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
