// Package testkit is what the tests of several packages need: other processes, which are
// the test binary itself, waiting for what is bound to happen, and skipping where something
// is missing. It is part of no promise.
package testkit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

// Absent ends the test if there is anything at a path.
func Absent(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is there (%v)", path, err)
	}
}

// ReadFile is what is in a file.
func ReadFile(t testing.TB, path string) []byte {
	t.Helper()
	return Must(os.ReadFile(path))(t)
}

// PutFile writes a file, and its folder if need be, as one that was last modified then, or now.
func PutFile(t testing.TB, path string, data []byte, modified time.Time) {
	t.Helper()
	Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	Check(t, os.WriteFile(path, data, 0o600))
	if !modified.IsZero() {
		Check(t, os.Chtimes(path, modified, modified))
	}
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
