//go:build !portable

package lock_test

import "testing"

// TestAwaitFree_Heirs: a lock that a dead holder has left to its children is not free.
func TestAwaitFree_Heirs(t *testing.T) { // guards: W7
	f := queued(t)
	p := start(t, "parent", f.Path)
	p.Do("hold", "held")
	child := descendant(t, p, "grandchild")
	p.Kill()
	awaited := beginAwait(t, t.Context(), f)
	parkedIs(t, 1)
	if l := wantLocked(t, f.Path); l.Gone == nil || len(awaited) != 0 {
		t.Errorf("%v; want it to be the child's", l)
	}
	killPID(t, child)
	wantAwaited(t, awaited)
	takeOver(t, f.Path)
}
