package lock

import (
	"bytes"
	"slices"
)

// passingSteps are hooks at which a process of the model does not pause.
var passingSteps = names(stepGranted, stepBusy, stepLooked, stepDying, stepPeeked)

// PassesInFallback reports whether it does so in fallback mode, where these mean nothing.
func PassesInFallback(step string) bool {
	return slices.Contains(names(stepEndTold, stepOwnUnlocked, stepUnlocked), step)
}

// Passes reports whether a process of the model goes on at a hook.
func Passes(step string) bool { return slices.Contains(passingSteps, step) }

// NeverLookAgain keeps this process from looking, in the background, whether the readers'
// file of a lock can go.
func NeverLookAgain(path string) {
	clearingMu.Lock()
	defer clearingMu.Unlock()
	clearing[path] = true
}

// SaysReleased reports whether a claim of ours says that it was released.
func SaysReleased(claim []byte) bool { return bytes.Contains(claim, []byte(isReleased)) }
