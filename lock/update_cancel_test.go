package lock_test

import (
	"context"
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
	wantErr(t, err, context.Canceled)
	hasContents(t, path, "old")
}
