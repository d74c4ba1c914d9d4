package claims

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// Claim is a claim on a node, in the form of its file.
type Claim struct {
	NodeID     string    `json:"node_id"`
	Owner      string    `json:"owner"`
	AcquiredAt time.Time `json:"acquired_at"` // since when the owner has it; a refresh leaves it
	ExpiresAt  time.Time `json:"expires_at"`
}

// active reports whether a claim still counts, by a clock that may differ from its owner's.
func (c Claim) active(now time.Time, skew time.Duration) bool {
	return now.Before(c.ExpiresAt.Add(skew))
}

func (c Claim) equal(d Claim) bool {
	return c.NodeID == d.NodeID && c.Owner == d.Owner && c.AcquiredAt.Equal(d.AcquiredAt) && c.ExpiresAt.Equal(d.ExpiresAt)
}

// sorted orders claims by node, number by number: 1.2 before 1.10.
func sorted(claims map[string]Claim) []Claim {
	return slices.SortedFunc(maps.Values(claims), func(a, b Claim) int { return compareNodes(a.NodeID, b.NodeID) })
}

func compareNodes(a, b string) int {
	for a != "" && b != "" {
		x, restA := number(a)
		y, restB := number(b)
		// Without leading zeros, the longer number is the greater.
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return cmp.Compare(a, b)
}

// number cuts the first number off a node's id.
func number(id string) (digits, rest string) {
	digits, rest, _ = strings.Cut(id, ".")
	return strings.TrimLeft(digits, "0"), rest
}

// The types of events, which are af's.
const (
	acquired = "lock_acquired"
	released = "lock_released"
	reaped   = "lock_reaped"
)

// event is a change, as it lies in the ledger.
type event struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	NodeID    string    `json:"node_id"`
	Owner     string    `json:"owner"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	since time.Time // of a refresh: when what it refreshes was acquired
}

// claim returns the claim that an event of type acquired makes. A refresh by a clock that
// was set back moves AcquiredAt back, too: else the claim could end before it began.
func (e event) claim() Claim {
	since := e.Timestamp
	if !e.since.IsZero() && e.since.Before(since) {
		since = e.since
	}
	return Claim{e.NodeID, e.Owner, since, e.ExpiresAt}
}

// state is what the events up to a sequence number make of the claims. It depends on them
// alone, so a snapshot of it is as good as to replay them. It does not grow with them.
type state struct {
	sequence int64
	digest   digest             // of the events up to sequence
	before   digest             // of those in front of the last one
	claims   map[string]Claim   // expired ones included
	ended    map[tenure]end     // of each owner's last claim on a node, the last keepEnded of them
	recent   map[tenure][]event // the last of type acquired, of tenures in claims, or in ended

	saved int64 // the sequence of the snapshot that it began with, or has left since
}

type tenure struct{ node, owner string }

// end is how a claim ended: when, and whether the ledger had told of that claim.
type end struct {
	at       time.Time
	known    bool
	sequence int64 // of the event that told
}

const (
	// keepRecent is how many events state.recent keeps of each: no claim that still lasts has
	// a file that is older than so many refreshes.
	keepRecent = 8
	// keepEnded is how many ends state.ended keeps. They only serve to tell the file of a
	// claim that has ended, and each change removes such files. One that outlives so many
	// ends counts as another program's: respected until it expires.
	keepEnded = 100
)

func newState() *state {
	return &state{claims: map[string]Claim{}, ended: map[tenure]end{}, recent: map[tenure][]event{}}
}

// forget keeps state.ended short.
func (s *state) forget() {
	for len(s.ended) > keepEnded {
		var oldest tenure
		first := s.sequence + 1
		for of, e := range s.ended { // one event may have ended two
			if e.sequence < first || e.sequence == first && of.owner < oldest.owner {
				oldest, first = of, e.sequence
			}
		}
		delete(s.ended, oldest)
		delete(s.recent, oldest)
	}
}

// apply makes the change that the event at s.sequence tells of, if it is one of ours.
func (s *state) apply(data []byte) error {
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &kind) != nil {
		return nil // not an object, or of a kind that is none of ours
	}
	switch kind.Type {
	case acquired, released, reaped:
	default:
		return nil
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	switch {
	case checkNode(e.NodeID) != nil:
		return fmt.Errorf("node_id %q", e.NodeID)
	case e.Owner == "":
		return errors.New("no owner")
	case e.Timestamp.IsZero():
		return errors.New("no timestamp")
	case e.Type == acquired && e.ExpiresAt.IsZero():
		return errors.New("no expires_at")
	}
	// Another program may end somebody else's claim, or claim what is claimed.
	before, ok := s.claims[e.NodeID]
	of := tenure{e.NodeID, e.Owner}
	s.ended[of] = end{e.Timestamp, ok && before.Owner == e.Owner, s.sequence}
	if ok {
		s.ended[tenure{e.NodeID, before.Owner}] = end{e.Timestamp, true, s.sequence}
	}
	if e.Type == acquired {
		if ok && before.Owner == e.Owner {
			e.since = before.AcquiredAt
		}
		s.claims[e.NodeID] = e.claim()
		s.recent[of] = append(s.recent[of][max(0, len(s.recent[of])-keepRecent+1):], e)
		delete(s.ended, of)
	} else {
		delete(s.claims, e.NodeID)
	}
	s.forget()
	return nil
}

// isLeftover reports whether only a crash can have left a file: its claim has ended in the
// ledger. A claim that the ledger has told of is known by its contents; others are other
// programs', and only the times tell. Where the clock was set back they don't, so a claim that
// still lasts counts.
func (s *state) isLeftover(file Claim, lasts bool) bool {
	of := tenure{file.NodeID, file.Owner}
	end, ok := s.ended[of]
	if !ok {
		return false
	}
	// Another program's file may say when a claim was refreshed, not acquired.
	if slices.ContainsFunc(s.recent[of], func(e event) bool {
		told := e.claim()
		e.since = time.Time{}
		return file.equal(told) || file.equal(e.claim())
	}) {
		return true
	}
	return !file.AcquiredAt.After(end.at) && !(end.known && lasts)
}

// add replays an event. The error says that it can't be understood: it may tell that somebody
// has a claim.
func (s *state) add(e ledger.Event) error {
	s.sequence, s.before, s.digest = e.Sequence, s.digest, s.digest.with(e.Data)
	if err := s.apply(e.Data); err != nil {
		return fmt.Errorf("not a claim's event: %w", err)
	}
	return nil
}

// catchUp replays what has come since. After an error the state is of no use.
func (s *state) catchUp(l ledger.Ledger) error {
	var errs []error
	for e, err := range l.Events(s.sequence) {
		if errors.Is(err, ledger.ErrAlien) {
			continue
		}
		if err == nil {
			if err = s.add(e); err != nil {
				err = fmt.Errorf("claims: %s: %w: %w", l.Path(e.Sequence), err, ledger.ErrDamaged)
			}
		}
		if err != nil {
			if errs = append(errs, err); len(errs) == maxErrors {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// maxErrors is how many damaged events are named at once.
const maxErrors = 20

var nodeID = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`)

// checkNode refuses what is not a node's id, such as 1.2.3, before it becomes a
// path.
func checkNode(id string) error {
	if len(id) > 128 || !nodeID.MatchString(id) {
		return fmt.Errorf("claims: %w: node id %q; want numbers with dots between, such as 1.2.3", lock.ErrInvalidName, id)
	}
	return nil
}

func checkOwner(owner string) error {
	if owner == "" || len(owner) > 1024 || !utf8.ValidString(owner) || strings.ContainsFunc(owner, unicode.IsControl) {
		return fmt.Errorf("claims: %w: owner %q", lock.ErrInvalidName, owner)
	}
	return nil
}
