package command

import (
	"bytes"
	"testing"
	"time"
)

// TestProgress: after a second, and then each second, it says how far it is; and takes that
// away before other words.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Now()
	p := &progress{terminal: &out, head: 100, next: now.Add(progressEvery), now: func() time.Time { return now }}
	p.at(1)
	p.clear()
	if out.Len() > 0 {
		t.Errorf("at once: %q", &out)
	}
	for n, step := range []time.Duration{progressEvery, progressEvery / 2, progressEvery / 2} {
		now = now.Add(step)
		p.at(int64(99 + n))
	}
	p.clear()
	p.clear()
	if got, want := out.String(), "\rholdfast: event 99 of 100\rholdfast: event 101 of 101\r\x1b[K"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	(&progress{now: time.Now}).at(1) // no terminal
}
