package ledger

import "iter"

// InOrder is inOrder, for a listing that has left numbers out.
func (l Ledger) InOrder(numbers []int64) iter.Seq2[int64, int64] { return l.inOrder(numbers) }
