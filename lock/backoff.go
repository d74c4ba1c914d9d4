package lock

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff paces repeated looks at what gives no sign when it changes: from 10 ms, doubling,
// with jitter, up to most.
type backoff struct{ delay, most time.Duration }

const (
	firstDelay = 10 * time.Millisecond
	maxDelay   = 500 * time.Millisecond
)

func newBackoff(most time.Duration) backoff { return backoff{delay: firstDelay, most: most} }

// next returns the next delay, without jitter.
func (b *backoff) next() time.Duration {
	delay := b.delay
	b.delay = min(2*b.delay, b.most)
	return delay
}

// sleep waits for the next delay, or until ctx is done.
func (b *backoff) sleep(ctx context.Context) { sleep(ctx, jitter(b.next())) }

// jitter is half of a delay, or up to all of it.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep waits for a time, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
