package claims

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock/ledger"
	"github.com/holdfast-go/holdfast/platform"
)

// A snapshot is a file with the state that the events up to one of them make, so that a
// Manager need not replay them. It lies beside them, as .claims, and proves that it fits:
//
//   - its own digest shows that it is whole. So it needs no fsync, and what a crash or a full
//     disk leaves of it is ignored;
//   - the digest of its events, which goes on from that of all but the last one, shows that
//     the last one is still the same; so does the time of its file. So a ledger
//     that was restored from a backup, cut, or begun anew is replayed, even where its events
//     say the same as the lost ones.
//
// It does not show whether an event in front of the last one was changed by hand: to find that,
// all must be read (Manager.Verify).
//
// The writer has the ledger's lock, and has read all events. So the last snapshot wins, and is
// never behind. One that does not fit, or can't be read or written, costs only time.

const (
	snapshotName   = ".claims"
	snapshotTemp   = ".event-claims.tmp" // the name of a temporary file of the ledger, which its writers clear away
	snapshotFormat = 1
	// maxSnapshot is the size of the largest snapshot, in bytes.
	maxSnapshot = 16 << 20
	// snapshotEvery is how many events are replayed rather than written as a snapshot,
	// beside one for each claim that it would hold.
	snapshotEvery = 100
)

// snapshot is what the file holds.
type snapshot struct {
	Format      int             `json:"format"`
	Sequence    int64           `json:"sequence"`
	Modified    time.Time       `json:"modified"` // the file of the last event
	Before      digest          `json:"before"`
	Digest      digest          `json:"digest"`
	StateDigest digest          `json:"state_digest"`
	State       json.RawMessage `json:"state"`
}

// saved is the state of a snapshot.
type saved struct {
	Claims []Claim      `json:"claims"`
	Ended  []savedEnd   `json:"ended"`
	Recent []savedEvent `json:"recent"`
}

type savedEnd struct {
	NodeID   string    `json:"node_id"`
	Owner    string    `json:"owner"`
	At       time.Time `json:"at"`
	Known    bool      `json:"known"`
	Sequence int64     `json:"sequence"`
}

type savedEvent struct {
	event
	Since time.Time `json:"since,omitzero"`
}

// digest is of a sequence of events: SHA-256 of the digest of all but the last one and of
// what the last one's file holds. That of none is 0.
type digest [sha256.Size]byte

func (d digest) with(event []byte) digest {
	h := sha256.New()
	h.Write(d[:])
	h.Write(event)
	return digest(h.Sum(nil))
}

// MarshalText writes hexadecimal digits.
func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads them.
func (d *digest) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(d) {
		return errors.New("not a SHA-256")
	}
	_, err := hex.Decode(d[:], text)
	return err
}

func snapshotPath(l ledger.Ledger, name string) string {
	return filepath.Join(filepath.Dir(l.Path(1)), name)
}

// fromSnapshot returns the state of the snapshot, if it fits the ledger; else that of no
// events.
func fromSnapshot(l ledger.Ledger) *state {
	data, err := platform.ReadRegular(snapshotPath(l, snapshotName), maxSnapshot)
	if err != nil {
		return newState()
	}
	var snap snapshot
	if json.Unmarshal(data, &snap) != nil || snap.Format != snapshotFormat || sha256.Sum256(snap.State) != snap.StateDigest {
		return newState()
	}
	last, err := l.Read(snap.Sequence)
	if err != nil || snap.Before.with(last.Data) != snap.Digest {
		return newState()
	}
	if at, err := modified(l, snap.Sequence); err != nil || !at.Equal(snap.Modified) {
		return newState()
	}
	var kept saved
	if json.Unmarshal(snap.State, &kept) != nil {
		return newState()
	}
	s := newState()
	s.sequence, s.saved, s.before, s.digest = snap.Sequence, snap.Sequence, snap.Before, snap.Digest
	for _, c := range kept.Claims {
		if checkNode(c.NodeID) != nil { // it becomes a path
			return newState()
		}
		s.claims[c.NodeID] = c
	}
	for _, e := range kept.Ended {
		s.ended[tenure{e.NodeID, e.Owner}] = end{e.At, e.Known, e.Sequence}
	}
	for _, e := range kept.Recent {
		e.since = e.Since
		of := tenure{e.NodeID, e.Owner}
		s.recent[of] = append(s.recent[of], e.event)
	}
	return s
}

func modified(l ledger.Ledger, sequence int64) (time.Time, error) {
	info, err := os.Lstat(l.Path(sequence))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime().UTC(), nil
}

// leaveSnapshot leaves a snapshot for the next Manager, if the last one is far behind. It
// keeps quiet when it fails. The caller has the ledger's lock.
func (s *state) leaveSnapshot(l ledger.Ledger) {
	if s.sequence-s.saved < int64(snapshotEvery+len(s.claims)) {
		return
	}
	s.saved = s.sequence // even if it fails: not at each change anew
	if data, err := s.snapshot(l); err == nil && len(data) <= maxSnapshot {
		_ = replace(snapshotPath(l, snapshotName), snapshotPath(l, snapshotTemp), data)
	}
}

func (s *state) snapshot(l ledger.Ledger) (data []byte, err error) {
	snap := snapshot{Format: snapshotFormat, Sequence: s.sequence, Before: s.before, Digest: s.digest}
	if snap.Modified, err = modified(l, s.sequence); err != nil {
		return nil, err
	}
	if snap.State, err = json.Marshal(s.save()); err != nil {
		return nil, err
	}
	snap.StateDigest = sha256.Sum256(snap.State)
	if data, err = json.Marshal(snap); err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

func (s *state) save() saved {
	kept := saved{Claims: sorted(s.claims), Ended: []savedEnd{}, Recent: []savedEvent{}}
	for _, of := range slices.SortedFunc(maps.Keys(s.ended), compareTenures) {
		e := s.ended[of]
		kept.Ended = append(kept.Ended, savedEnd{of.node, of.owner, e.at, e.known, e.sequence})
	}
	for _, of := range slices.SortedFunc(maps.Keys(s.recent), compareTenures) {
		for _, e := range s.recent[of] {
			kept.Recent = append(kept.Recent, savedEvent{e, e.since})
		}
	}
	return kept
}

func compareTenures(a, b tenure) int {
	return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.owner, b.owner))
}

// replace replaces the file at path, whatever lies there, by way of temp.
func replace(path, temp string, data []byte) error {
	_ = platform.Remove(temp) // a dead writer's
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, platform.Remove(temp))
	}
	return nil
}
