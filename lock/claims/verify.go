package claims

import (
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/lock/ledger"
)

// Verify reads the whole ledger, and yields what is wrong with it: what Ledger.Verify finds,
// events of claims that can't be understood, and a snapshot that was made of other events than
// there are. It takes no lock, and changes nothing. An error is the last that comes.
//
// look is called with each event that can be one, in order, and may be nil.
func (m *Manager) Verify(look func(ledger.Event)) iter.Seq2[ledger.Problem, error] {
	return func(yield func(ledger.Problem, error) bool) {
		if err := m.check(); err != nil {
			yield(ledger.Problem{}, err)
			return
		}
		l := m.ledger()
		snap, s := fromSnapshot(l), newState()
		other, complete := false, true
		for p, err := range l.Verify(func(e ledger.Event) error {
			if look != nil {
				look(e)
			}
			err := s.add(e)
			other = other || s.sequence == snap.sequence && s.digest != snap.digest
			return err
		}) {
			complete = complete && (p.Sequence == 0 || p.Sequence > snap.sequence)
			if !yield(p, err) {
				return
			}
		}
		if other && complete { // else it can't be told
			yield(ledger.Problem{Kind: ledger.ProblemDamaged, Path: snapshotPath(l, snapshotName),
				What: fmt.Sprintf("was made of other events than there are: one of the first %d has changed since", snap.sequence),
				Next: "put that event back from a copy; or remove the snapshot: then the events that are there count"}, nil)
		}
	}
}
