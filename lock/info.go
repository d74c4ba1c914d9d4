package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// LockInfo is a claim: what a lock file says of its holder, as one JSON object.
//
// PID, CreatedAt and Cmd are seed agency's, and all that a program needs to
// write in order to take part. The others say which process that pid meant, and
// are written by this package; readers tolerate fields that they do not know.
type LockInfo struct {
	PID       int       `json:"pid"`
	CreatedAt time.Time `json:"created_at"`
	Cmd       string    `json:"cmd,omitempty"`

	// Nonce is unique to one holding of one lock.
	Nonce    string `json:"nonce,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// BootID differs between any two boots of any two machines.
	BootID string `json:"boot_id,omitempty"`
	// PIDNamespace, TimeNamespace, Start and PIDFD are those of
	// platform.Process.
	PIDNamespace  uint64 `json:"pid_ns,omitempty"`
	TimeNamespace uint64 `json:"time_ns,omitempty"`
	Start         uint64 `json:"start,omitempty"`
	PIDFD         uint64 `json:"pidfd,omitempty"`
	// Flock names the sibling file whose kernel lock the holder had when it
	// wrote this, as "device:inode:birth"; empty in fallback mode.
	Flock string `json:"flock,omitempty"`
	// Mode is "shared", or empty for an exclusive holder.
	Mode string `json:"mode,omitempty"`
	// RenewedAt is when a holder without trustworthy kernel lock last said
	// that it lives, in whole seconds.
	RenewedAt time.Time `json:"renewed_at,omitzero"`
}

// maxCmd keeps the claim, in which a byte of it may take six, below maxClaim.
const maxCmd = 8 << 10

// maxClaim is the size up to which a lock file is read. What is larger was not
// written by a program that speaks this protocol.
const maxClaim = 64 << 10

// process returns who the claim says its holder is.
func (c *LockInfo) process() platform.Process {
	return platform.Process{
		PID: c.PID, Start: c.Start, PIDFD: c.PIDFD,
		PIDNamespace: c.PIDNamespace, TimeNamespace: c.TimeNamespace,
	}
}

// renewed returns when the holder last said that it lives.
func (c *LockInfo) renewed() time.Time {
	if c.RenewedAt.After(c.CreatedAt) {
		return c.RenewedAt
	}
	return c.CreatedAt
}

func (c *LockInfo) encode() ([]byte, error) {
	line := bytes.NewBuffer(make([]byte, 0, 512)) // usually enough
	if err := json.NewEncoder(line).Encode(c); err != nil {
		return nil, fmt.Errorf("encoding the claim: %w", err)
	}
	return line.Bytes(), nil
}

var (
	errNoPID       = errors.New("no usable pid")
	errNoCreatedAt = errors.New("no created_at")
)

// decodeClaim reads a claim, its own or another program's. A claim without a
// possible pid, or without a time, is no claim.
func decodeClaim(data []byte) (*LockInfo, error) {
	var c LockInfo
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if c.PID <= 0 || c.PID > math.MaxInt32 {
		return nil, errNoPID
	}
	if c.CreatedAt.IsZero() {
		return nil, errNoCreatedAt
	}
	return &c, nil
}

// newClaim describes this process as the holder of f.
func (a *attempt) newClaim() LockInfo {
	self, host := platform.Self(), platform.ThisHost()
	c := LockInfo{
		PID:           self.PID,
		CreatedAt:     a.now().UTC(),
		Cmd:           a.file.Cmd,
		Nonce:         newNonce(),
		Hostname:      host.Name,
		BootID:        host.BootID,
		PIDNamespace:  self.PIDNamespace,
		TimeNamespace: self.TimeNamespace,
		Start:         self.Start,
		PIDFD:         self.PIDFD,
	}
	if a.kernel != nil {
		c.Flock = a.sibling.String()
	}
	if a.mode == platform.Shared {
		c.Mode = modeShared
	}
	if a.renews() {
		c.RenewedAt = renewalTime(c.CreatedAt)
	}
	return c
}

// renewalTime has no fraction, and so always the same length when encoded: a
// renewal overwrites the claim in place.
func renewalTime(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// same reports whether two looks saw one and the same claim, in a file that nobody
// has touched in between.
func (f *found) same(g *found) bool {
	return platform.Unchanged(f.info, g.info) && bytes.Equal(f.data, g.data)
}
