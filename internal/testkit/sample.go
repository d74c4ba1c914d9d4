package testkit

import (
	"math/rand/v2"
	"os"
)

// completeVar asks tests to try everything that they have. tests/all.sh -complete sets it.
const completeVar = "HOLDFAST_TEST_COMPLETE"

// Complete reports whether tests are to try each of their cases, however long that takes.
func Complete() bool { return os.Getenv(completeVar) != "" }

// Sample reports whether a test that has many cases is to try this one: each of them if Complete,
// and otherwise one in n, by chance, so that in the course of some runs each is tried.
func Sample(n int) bool { return Complete() || rand.IntN(n) == 0 }

// Rounds is how often a test is to repeat what may go wrong by chance: so many times if Complete,
// and otherwise an n-th of that.
func Rounds(all, n int) int {
	if Complete() {
		return all
	}
	return all / n
}
