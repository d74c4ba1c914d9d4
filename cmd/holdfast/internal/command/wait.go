package command

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/spf13/cobra"
)

// waitCommand returns when each of the locks has been free, one after the other.
func (a *app) waitCommand(parent *cobra.Command) {
	var o runOptions
	c := a.command(parent, "wait", func(c *cobra.Command, names []string) (int, error) {
		if o.timed = c.Flags().Changed("timeout"); len(names) == 0 {
			return 0, misused("LOCK is missing")
		}
		for _, name := range names {
			if err := o.engines.wrongName(name); err != nil {
				return 0, err
			}
		}
		at, leave, err := o.engines.open(lock.File{Cmd: "holdfast wait"})
		if err != nil {
			return 0, err
		}
		defer leave()
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, caughtSignals()...)
		defer signal.Stop(signals)
		ctx := context.Background()
		if o.timed {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, o.timeout)
			defer cancel()
		}
		o.conflict = exitNotHad
		for _, name := range names {
			o.locks = []string{name}
			o.asks = func(live context.Context) ([]hold, error) { return nil, awaitWhole(ctx, live, at, name) }
			if _, code, ok := a.take(context.Background(), o, at, signals); !ok {
				return code, nil
			}
		}
		return exitOK, nil
	})
	unbuffer(c)
	durationFlag(c.Flags(), &o.timeout, "timeout", "w", "wait no longer than `D`; 0 only looks")
	c.Flags().BoolP("quiet", "q", false, "say nothing; the exit code tells")
	o.engines = engineFlags(c)
}

// awaitWhole waits until a lock is free, and nobody has a permit of it: until limit or live ends.
// If limit allows no wait, or that would be in vain, it only looks.
func awaitWhole(limit, live context.Context, at locks, name string) error {
	ctx, cancel := context.WithCancel(limit)
	defer cancel()
	defer context.AfterFunc(live, cancel)()
	for _, await := range []func(ctx context.Context, try bool) error{
		func(ctx context.Context, try bool) error { return at.await(ctx, name, try) },
		func(ctx context.Context, try bool) error { return withoutPermits(ctx, at, []string{name}, try) },
	} {
		err := await(ctx, false)
		var locked *lock.LockedError
		if err != nil && !errors.As(err, &locked) && errors.Is(err, context.DeadlineExceeded) {
			err = await(live, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// await waits until a lock file is free. Something that no holder has put there won't go away.
func (f files) await(ctx context.Context, name string, try bool) error {
	if !try && !isObstacle(name) {
		return f.at(name).AwaitFree(ctx)
	}
	return asRefusal(f.inspect(ctx, name))
}
