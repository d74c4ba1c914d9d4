package model

import "strings"

// A part is what of the protocol a machine has. A half is the joint model without what belongs to
// the other room. The steps that it has are the same, so that it can be explored further.
type part uint8

const (
	joint part = iota
	// lockFileHalf is without the queue: whoever wants the lock comes to the lock file at any time,
	// which is more than any queue lets them.
	lockFileHalf
	// queueHalf is without the lock file. Whoever has the sibling gets it at once, or after as long
	// as it takes; and who tidies up may be told at any time that there is one, or none.
	queueHalf
)

// halves says who can take part in each half, and what of the other one cannot happen there.
var halves = [...]struct {
	name, roles string
	never       []budget
	// more is what puts two holders beside each other, and only the other half prevents that.
	more []budget
}{
	joint:        {"", "wrtuiFKELWRb", nil, nil},
	lockFileHalf: {"lock file half: ", "wrtuiFKE", []budget{siblingRemoved, siblingReplaced, setBack}, []budget{fileRemoved, fileReplaced}},
	queueHalf: {"queue half: ", "wrtuL", []budget{heirs, execs, fileRemoved, markerGoes, fileReplaced, failures, setBack},
		[]budget{siblingRemoved, siblingReplaced}},
}

// half is what of a machine is in one half. Not all can be: its roles may belong to the other.
func (m Machine) half(p part) (of Machine, can bool) {
	h := halves[p]
	m.Part, m.First, m.Fence = p, "", false
	for _, b := range h.never {
		m.Budget[b] = 0
	}
	for _, b := range h.more {
		if m.Budget[b] > 0 {
			m.Excused = twoHolders
		}
	}
	if p == lockFileHalf {
		if strings.ContainsRune(m.rolesText(), rune(Thief)) { // which is as a hand
			m.Excused = twoHolders
		}
		m.Turnstile, m.Order, m.Slow, m.Tidy = false, false, false, false
	} else {
		m.DeadFile, m.DeadMarker = false, false
	}
	return m, strings.Trim(m.rolesText(), h.roles) == ""
}

// askLockFile is createFile in the queue's half.
func (t *turn) askLockFile() {
	t.reach(claimWritten, "gets the lock file")
	t.reach(lockFileThere, "finds the lock file another's")
}

// waitLockFile is all of takeOver in the queue's half.
func (t *turn) waitLockFile() {
	if t.role().tries() {
		t.giveUp("finds the lock file another's, and gives up")
	} else if t.s.left[cancels] > 0 {
		t.s.left[cancels]--
		t.giveUp("is cancelled, and leaves its wait at the lock file behind")
	}
	t.moved("looks again")
}
