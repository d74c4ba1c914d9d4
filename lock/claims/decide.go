package claims

import "time"

// view is all that a decision on a change may look at.
type view struct {
	claims  map[string]Claim // of the ledger
	told    map[tenure][]event
	foreign map[string]Claim // files of which the ledger knows nothing
	now     time.Time
	skew    time.Duration
	lasts   time.Duration // of a new claim
}

// on returns the claim on a node, expired or not.
func (v view) on(node string) (Claim, bool) {
	if c, ok := v.claims[node]; ok {
		return c, true
	}
	c, ok := v.foreign[node]
	return c, ok
}

func (v view) acquire(node, owner string) event {
	return event{Type: acquired, Timestamp: v.now, NodeID: node, Owner: owner, ExpiresAt: v.now.Add(v.lasts)}
}

// claim claims a node. It reaps an expired claim on the way, so that the ledger tells of
// it.
func (v view) claim(node, owner string) ([]event, error) {
	c, ok := v.on(node)
	switch {
	case !ok:
		return []event{v.acquire(node, owner)}, nil
	case c.active(v.now, v.skew):
		return nil, &ClaimedError{owner, c}
	}
	return []event{{Type: reaped, Timestamp: v.now, NodeID: node, Owner: c.Owner}, v.acquire(node, owner)}, nil
}

// refresh extends a claim, but not an expired one: others were told that it is free.
func (v view) refresh(node, owner string) ([]event, error) {
	if err := v.owned(node, owner); err != nil {
		return nil, err
	}
	if c, _ := v.on(node); !c.active(v.now, v.skew) {
		return nil, &NotOwnedError{NodeID: node, Owner: owner, Claim: &c}
	}
	e := v.acquire(node, owner)
	e.since = v.claims[node].AcquiredAt
	return []event{e}, nil
}

// release ends a claim, at no time before it was acquired, or refreshed: else the claim
// would seem to be a later one.
func (v view) release(node, owner string) ([]event, error) {
	if err := v.owned(node, owner); err != nil {
		return nil, err
	}
	at := v.now
	if c, _ := v.on(node); at.Before(c.AcquiredAt) {
		at = c.AcquiredAt
	}
	if told := v.told[tenure{node, owner}]; len(told) > 0 && at.Before(told[len(told)-1].Timestamp) {
		at = told[len(told)-1].Timestamp
	}
	return []event{{Type: released, Timestamp: at, NodeID: node, Owner: owner}}, nil
}

func (v view) owned(node, owner string) error {
	c, ok := v.on(node)
	switch {
	case !ok:
		return &NotOwnedError{NodeID: node, Owner: owner}
	case c.Owner != owner:
		return &NotOwnedError{NodeID: node, Owner: owner, Claim: &c}
	}
	return nil
}

func (v view) reap() (events []event, ended []Claim) {
	for _, claims := range []map[string]Claim{v.claims, v.foreign} {
		for _, c := range sorted(claims) {
			if !c.active(v.now, v.skew) {
				ended = append(ended, c)
				events = append(events, event{Type: reaped, Timestamp: v.now, NodeID: c.NodeID, Owner: c.Owner})
			}
		}
	}
	return events, ended
}
