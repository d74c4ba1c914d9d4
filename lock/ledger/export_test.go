package ledger

import "iter"

// Synced returns l with a function that is told which folders are synced.
func (l Ledger) Synced(synced func(path string)) Ledger {
	l.synced = synced
	return l
}

// InOrder is inOrder, for a listing that has left numbers out.
func (l Ledger) InOrder(numbers []int64) iter.Seq2[int64, int64] { return l.inOrder(numbers) }
