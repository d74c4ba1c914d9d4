package elect_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/elect"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestLeader_Dead: whose lock file is still there, and who is dead, leads no more.
func TestLeader_Dead(t *testing.T) {
	locks := lock.Dir{Path: t.TempDir()}
	f := must(locks.At(key))(t)
	check(t, lock.Do(t.Context(), locks, key, func(context.Context, lock.Hold) error { return nil })) // makes the folders
	claim := fmt.Sprintf(`{"pid":2147483646,"created_at":%q}`, time.Now().UTC().Format(time.RFC3339))
	check(t, os.WriteFile(f.Path, []byte(claim), 0o600))
	found := false
	for e, err := range locks.List(t.Context()) {
		check(t, err)
		found = found || e.Key == key && e.State == evidence.Dead
	}
	if !found {
		t.Fatal("the dead one is not listed")
	}
	if e, err := (elect.Candidate{Locker: locks, Key: key}).Leader(t.Context()); e != nil || err != nil {
		t.Errorf("%+v leads, %v", e, err)
	}
}
