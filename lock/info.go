package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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

// encode gives the claim as one line of JSON, byte for byte what package json makes
// of it, with further fields behind. That package takes 30 µs when its caches are
// cold, as they are for whoever has waited, with everybody behind waiting in turn.
func (c *LockInfo) encode(further map[string]string) ([]byte, error) {
	for _, t := range []time.Time{c.CreatedAt, c.RenewedAt} {
		if y := t.Year(); y < 0 || y > 9999 {
			return nil, fmt.Errorf("encoding the claim: the year %d has no place in it", y)
		}
	}
	b := make([]byte, 0, 512) // usually enough
	number := func(name string, n uint64) {
		if n != 0 {
			b = strconv.AppendUint(append(b, name...), n, 10)
		}
	}
	text := func(name, s string) {
		if s != "" {
			b = appendJSON(append(b, name...), s)
		}
	}
	b = strconv.AppendInt(append(b, `{"pid":`...), int64(c.PID), 10)
	b = c.CreatedAt.AppendFormat(append(b, `,"created_at":"`...), time.RFC3339Nano)
	b = append(b, '"')
	text(`,"cmd":`, c.Cmd)
	text(`,"nonce":`, c.Nonce)
	text(`,"hostname":`, c.Hostname)
	text(`,"boot_id":`, c.BootID)
	number(`,"pid_ns":`, c.PIDNamespace)
	number(`,"time_ns":`, c.TimeNamespace)
	number(`,"start":`, c.Start)
	number(`,"pidfd":`, c.PIDFD)
	text(`,"flock":`, c.Flock)
	text(`,"mode":`, c.Mode)
	if !c.RenewedAt.IsZero() {
		b = c.RenewedAt.AppendFormat(append(b, `,"renewed_at":"`...), time.RFC3339Nano)
		b = append(b, '"')
	}
	names := make([]string, 0, len(further))
	for name := range further {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(fieldNames, name) {
			return nil, fmt.Errorf("%w: the claim has a field %q of its own", ErrInvalidName, name)
		}
		b = appendJSON(append(b, ','), name)
		b = appendJSON(append(b, ':'), further[name])
	}
	if b = append(b, "}\n"...); len(b) > maxClaim {
		return nil, fmt.Errorf("%w: the claim has %d bytes; at most %d", ErrInvalidName, len(b), maxClaim)
	}
	return b, nil
}

// fieldNames are those of LockInfo in JSON.
var fieldNames = []string{"pid", "created_at", "cmd", "nonce", "hostname", "boot_id", "pid_ns", "time_ns",
	"start", "pidfd", "flock", "mode", "renewed_at"}

// appendJSON appends a string as JSON.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || strings.IndexByte(`"\<>&`, c) >= 0 {
			quoted, _ := json.Marshal(s) // a string can't fail
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
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
	if err := c.check(); err != nil {
		return nil, err
	}
	return &c, nil
}

// check refuses what can't name a holder.
func (c *LockInfo) check() error {
	if c.PID <= 0 || c.PID > math.MaxInt32 {
		return errNoPID
	}
	if c.CreatedAt.IsZero() {
		return errNoCreatedAt
	}
	return nil
}

// encode gives a claim of ours as File.Fields wants it.
func (a *attempt) encode(c LockInfo) ([]byte, error) {
	if a.file.Fields == nil {
		return c.encode(nil)
	}
	return c.encode(a.file.Fields(c))
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
