package testkit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

var kept []byte

// TestStock: what Run is to find, is found, and is no longer found once it is gone.
func TestStock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "left")
	for what, leave := range map[string]func() (words string, take func()){
		"a goroutine": func() (string, func()) {
			end := make(chan struct{})
			go func() { <-end }()
			return "TestStock", func() { close(end) }
		},
		"memory": func() (string, func()) {
			kept = make([]byte, 2*maxGrowth)
			return "of memory", func() { kept = nil }
		},
		"a file": func() (string, func()) {
			f, err := os.Create(path)
			Check(t, err)
			if _, err := os.Stat("/proc/self/fd"); err != nil {
				return "", func() { f.Close() }
			}
			return path, func() { f.Close() }
		},
		"a pipe": func() (string, func()) {
			r, w, err := os.Pipe()
			Check(t, err)
			if _, err := os.Stat("/proc/self/fd"); err != nil {
				return "", func() { r.Close(); w.Close() }
			}
			return "2 more open: pipe", func() { r.Close(); w.Close() }
		},
	} {
		t.Run(what, func(t *testing.T) {
			before := takeStock()
			words, take := leave()
			if left := strings.Join(takeStock().beyond(before), "\n"); !strings.Contains(left, words) {
				t.Errorf("found %q", left)
			}
			take()
			Eventually(t, "nothing is left", func() bool { return len(takeStock().beyond(before)) == 0 })
		})
	}
}

// TestRun_Failed: a failure of the tests themselves stays what it is.
func TestRun_Failed(t *testing.T) {
	if code := Run(outcome(3)); code != 3 {
		t.Errorf("exit code is %d, want 3", code)
	}
	if code := Run(outcome(0)); code != 0 {
		t.Errorf("exit code is %d, want 0", code)
	}
}

type outcome int

func (o outcome) Run() int { return int(o) }
