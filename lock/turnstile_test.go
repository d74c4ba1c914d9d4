package lock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// TestAcquire_KeepsTheTurnstile: who has waited keeps the turnstile until the lock file is
// made, and not only until the sibling is theirs: whoever comes back at once after a release
// stands behind.
func TestAcquire_KeepsTheTurnstile(t *testing.T) { // guards: W2
	needsTurnstile(t)
	f := queued(t)
	taken := func() bool {
		sibling := openSibling(t, f)
		defer sibling.Close()
		return must(sibling.TurnstileTaken())(t)
	}
	first := tryHold(t, f)
	made := false
	came := beginAcquire(t, t.Context(), f.Park(func(step string) {
		if step == lock.StepPublished {
			if made = true; !taken() {
				t.Error("nobody has the turnstile when the lock file is made")
			}
		}
	}))
	parkedIs(t, 1)
	letGo(t, first)
	second := getHeld(t, came)
	if !made || taken() {
		t.Errorf("the lock file was made: %t; the turnstile is taken: %t", made, taken())
	}
	letGo(t, second)
}

func openSibling(t *testing.T, f lock.File) *platform.File {
	t.Helper()
	sibling, _, err := platform.OpenToLock(f.Path+".flock", false, 0)
	check(t, err)
	return sibling
}
