// Package pace says how long to wait between two looks at what gives no sign when it changes.
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// Passage is how long to wait for what passes in an instant: another process between two
	// steps, or one that only looks. Tries is how often to look again before that was no passage.
	Passage = 500 * time.Microsecond
	Tries   = 10
	// Moves is how often to begin again. Each round takes an act of another process.
	Moves = 10
)

// Longest is the delay to which a Backoff grows as a rule.
const Longest = 500 * time.Millisecond

// A Backoff paces repeated looks: from First on, doubling, with jitter, up to Most.
type Backoff struct{ First, Most time.Duration }

// New begins with 10 ms.
func New(most time.Duration) Backoff { return Backoff{First: 10 * time.Millisecond, Most: most} }

// Next returns the next delay, without jitter.
func (b *Backoff) Next() time.Duration {
	delay := b.First
	b.First = min(2*b.First, b.Most)
	return delay
}

// Sleep waits for the next delay, or until ctx is done.
func (b *Backoff) Sleep(ctx context.Context) { Sleep(ctx, Jitter(b.Next())) }

// Jitter is half of a delay, or up to all of it.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Sleep waits for a time, or until ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
