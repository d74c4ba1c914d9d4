package lock

import (
	"slices"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/queue"
)

// passingSteps are hooks at which a process of the model does not pause.
var passingSteps = names(queue.Granted, lockfile.StepBusy, queue.Looked, lockfile.StepDying, lockfile.StepPeeked)

// PassesInFallback reports whether it does so in fallback mode, where these mean nothing.
func PassesInFallback(step string) bool {
	return slices.Contains(names(stepEndTold, lockfile.StepOwnUnlocked, stepUnlocked), step)
}

// Passes reports whether a process of the model goes on at a hook.
func Passes(step string) bool { return slices.Contains(passingSteps, step) }

// NeverLookAgain keeps this process from looking, in the background, whether the readers'
// file of a lock can go.
func NeverLookAgain(path string) {
	clearing.Begin(path)
}

// SaysReleased reports whether a claim of ours says that it was released.
func SaysReleased(claim []byte) bool {
	c := evidence.DecodeOurs(claim)
	return c != nil && c.Released
}
