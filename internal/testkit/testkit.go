// Package testkit is what the tests of several packages need: other processes, which are
// the test binary itself, waiting for what is bound to happen, and skipping where something
// is missing. It is part of no promise.
package testkit

import (
	"os"
	"strings"
	"testing"
	"time"
)

// Patience bounds what must not hang; nothing is expected to take this long.
const Patience = time.Minute

// Eventually waits for a condition that is bound to come about.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came about: %s", what)
		}
	}
}

// Promptly runs f, and fails the test if it does not come back.
func Promptly(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(Patience):
		t.Fatalf("%s hangs", what)
	}
}

// Exists reports whether there is something at a path, be it a link that leads nowhere.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Names are those of all that is in a folder, in order, with spaces between.
func Names(t testing.TB, dir string) string {
	t.Helper()
	var names []string
	for _, e := range Must(os.ReadDir(dir))(t) {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
