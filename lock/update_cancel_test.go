package lock_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

// TestUpdate_CancelledMeanwhile: nothing is written for a caller who has given up while the
// change was made.
func TestUpdate_CancelledMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	update(t, path, into("old"))
	ctx, cancel := withCancel(t)
	err := lock.Update(ctx, path, func([]byte) ([]byte, error) {
		cancel()
		return []byte("new"), nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	hasContents(t, path, "old")
}
