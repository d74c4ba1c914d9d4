package ledger

import (
	"iter"
	"time"
)

// Patience is how long appending waits for the lock.
func (l Ledger) Patience() time.Duration { return l.timeout() }

// Synced returns l with a function that is told which folders are synced.
func (l Ledger) Synced(synced func(path string)) Ledger {
	l.synced = synced
	return l
}

// InOrder is inOrder, for a listing that has left numbers out.
func (l Ledger) InOrder(numbers []int64) iter.Seq2[int64, int64] { return l.inOrder(numbers) }
