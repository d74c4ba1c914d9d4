// Package fail puts errors together.
package fail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// ErrMoved says that a path leads elsewhere by now, so that the caller must look again. It is
// compared by identity.
var ErrMoved = errors.New("the file at the path is another one by now")

// Join returns err with a second error, from the clean-up after it. Unlike errors.Join it
// leaves either as it is when there is no other.
func Join(err, second error) error {
	switch {
	case second == nil:
		return err
	case err == nil:
		return second
	}
	return errors.Join(err, second)
}

// At adds the operation and the path to an error.
func At(op, path string, err error) error {
	return fmt.Errorf("lock: %s %s: %w", op, path, err)
}

// UnlessAbsent returns err, but nil for a file that is not there.
func UnlessAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Context is the error of ctx, with its cause if that is another.
func Context(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}
