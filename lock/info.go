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
// PID, CreatedAt and Cmd are those of the agency command's lock file, and all that a
// program needs to write in order to take part. Hostname and Nonce are read in any claim.
// The other fields say which process that pid meant. They count only in a claim that this
// package wrote, which shows by a field "holdfast": the number of the format, 1. Behind it,
// "released" is false, until a holder sets it who could not remove the file, or has left it
// to its children. Readers tolerate fields that they do not know.
type LockInfo struct {
	PID       int       `json:"pid"`
	CreatedAt time.Time `json:"created_at"`
	Cmd       string    `json:"cmd,omitempty"`

	// OwnerPID is the process for whose life the holder has the lock (File.OwnerPID); 0 for
	// a holder that has it for itself.
	OwnerPID int `json:"owner_pid,omitempty"`

	// Nonce is unique to one holding of one lock.
	Nonce    string `json:"nonce,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// User is the holder's user, by name, and Dir its working directory when it acquired; to
	// tell people. A directory whose path is longer than a KiB is left out.
	User string `json:"user,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// BootID differs between any two boots of any two machines.
	BootID string `json:"boot_id,omitempty"`
	// PIDNamespace, TimeNamespace, Start and PIDFD are those of
	// platform.Process.
	PIDNamespace  uint64 `json:"pid_ns,omitempty"`
	TimeNamespace uint64 `json:"time_ns,omitempty"`
	Start         uint64 `json:"start,omitempty"`
	PIDFD         uint64 `json:"pidfd,omitempty"`
	// KernelLock names the file whose kernel lock the holder has had since before it wrote
	// this, as "filesystem:device:inode": the lock file itself (on Windows, the sibling).
	// It is empty in fallback mode, and on a filesystem that the holder did not trust.
	KernelLock string `json:"kernel_lock,omitempty"`
	// LockFD and QueueFD are the descriptors by which an exclusive holder with a KernelLock has
	// the lock file and its sibling open, so that one can see in /proc that it has their locks
	// (Linux).
	LockFD  int `json:"lock_fd,omitempty"`
	QueueFD int `json:"queue_fd,omitempty"`
	// Mode is "shared", or empty for an exclusive holder.
	Mode string `json:"mode,omitempty"`
	// RenewedAt is when a holder without a trustworthy kernel lock last said that it lives,
	// in whole seconds. StaleAfter is its File's, in nanoseconds.
	RenewedAt  time.Time     `json:"renewed_at,omitzero"`
	StaleAfter time.Duration `json:"stale_after,omitempty"`
}

// modeShared is LockInfo.Mode of a reader.
const modeShared = "shared"

// maxCmd keeps the claim below maxClaim: a byte of Cmd may take six in it.
const maxCmd = 8 << 10

// maxClaim is the size up to which a lock file is read. A larger one was not written by a
// program that speaks this protocol.
const maxClaim = 64 << 10

// A claim is a LockInfo as it lies on disk.
type claim struct {
	LockInfo
	ours     bool // this package wrote it, so that its fields mean what LockInfo says
	released bool // by a holder who could not remove the file, or has left it to children
}

// How a claim says whether it was released. The texts have one length, so that one can be
// written over the other.
const (
	notReleased = `"released":false`
	isReleased  = `"released":true `
)

func (c *LockInfo) process() platform.Process {
	return platform.Process{
		PID: c.PID, Start: c.Start, PIDFD: c.PIDFD,
		PIDNamespace: c.PIDNamespace, TimeNamespace: c.TimeNamespace,
	}
}

// renewed returns when the holder last said that it lives, or up to a second later: the
// time in the claim has no fraction.
func (c *LockInfo) renewed() time.Time {
	if said := c.RenewedAt.Add(time.Second); !c.RenewedAt.IsZero() && said.After(c.CreatedAt) {
		return said
	}
	return c.CreatedAt
}

// encode gives the claim as one line of JSON, byte for byte what package json would make of
// it, with further fields behind. Package json takes 30 µs when its caches are cold. They
// are cold in a process that has waited, and everybody behind waits for it.
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
	number(`,"owner_pid":`, uint64(max(0, c.OwnerPID)))
	b = append(b, `,"holdfast":1,`+notReleased...)
	text(`,"nonce":`, c.Nonce)
	text(`,"hostname":`, c.Hostname)
	text(`,"user":`, c.User)
	text(`,"dir":`, c.Dir)
	text(`,"boot_id":`, c.BootID)
	number(`,"pid_ns":`, c.PIDNamespace)
	number(`,"time_ns":`, c.TimeNamespace)
	number(`,"start":`, c.Start)
	number(`,"pidfd":`, c.PIDFD)
	text(`,"kernel_lock":`, c.KernelLock)
	number(`,"lock_fd":`, uint64(max(0, c.LockFD)))
	number(`,"queue_fd":`, uint64(max(0, c.QueueFD)))
	text(`,"mode":`, c.Mode)
	if !c.RenewedAt.IsZero() {
		b = c.RenewedAt.AppendFormat(append(b, `,"renewed_at":"`...), time.RFC3339Nano)
		b = append(b, '"')
	}
	if c.StaleAfter != 0 {
		b = strconv.AppendInt(append(b, `,"stale_after":`...), int64(c.StaleAfter), 10)
	}
	names := make([]string, 0, len(further))
	for name := range further {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		// Package json ignores case in names.
		if slices.ContainsFunc(fieldNames, func(own string) bool { return strings.EqualFold(own, name) }) {
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

// fieldNames are the names of a claim's own fields.
var fieldNames = []string{"pid", "created_at", "cmd", "owner_pid", "holdfast", "released", "nonce", "hostname", "user", "dir", "boot_id", "pid_ns",
	"time_ns", "start", "pidfd", "kernel_lock", "lock_fd", "queue_fd", "mode", "renewed_at", "stale_after"}

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

// decodeClaim reads a claim, of this package or another program. Of another program's, pid,
// created_at and hostname count, and cmd and nonce are shown; no other field can make it
// unreadable. A claim without a possible pid, or without a time, is no claim.
func decodeClaim(data []byte) (*claim, error) {
	if c := decodeOurs(data); c != nil {
		return c, c.check()
	}
	fields, err := fieldsOf(data)
	if err != nil {
		return nil, err
	}
	var c claim
	if c.PID, err = decodePID(fields["pid"]); err != nil {
		return nil, err
	}
	if json.Unmarshal(fields["created_at"], &c.CreatedAt) != nil {
		return nil, errNoCreatedAt
	}
	_ = json.Unmarshal(fields["cmd"], &c.Cmd)
	_ = json.Unmarshal(fields["hostname"], &c.Hostname)
	_ = json.Unmarshal(fields["nonce"], &c.Nonce)
	return &c, c.check()
}

// claimIn returns the part of a file that is a claim: all of it, or its first line if that is
// a whole claim of this package. What another program has appended does not make it less of a
// claim.
func claimIn(data []byte) []byte {
	line, more, ended := bytes.Cut(data, []byte{'\n'})
	if ended && len(more) > 0 && decodeOurs(line) != nil {
		return line
	}
	return data
}

// decodeOurs reads a claim of this package, all of whose fields count; nil for others.
func decodeOurs(data []byte) *claim {
	var c struct {
		Format   int   `json:"holdfast"`
		Released *bool `json:"released"`
		LockInfo
	}
	if !bytes.Contains(data, []byte(`"holdfast"`)) || json.Unmarshal(data, &c) != nil || c.Format < 1 || c.Released == nil {
		return nil
	}
	return &claim{LockInfo: c.LockInfo, ours: true, released: *c.Released}
}

func fieldsOf(data []byte) (fields map[string]json.RawMessage, err error) {
	err = json.Unmarshal(data, &fields)
	return fields, err
}

// decodePID takes a whole number in any form that JSON has for it.
func decodePID(field json.RawMessage) (int, error) {
	n, err := strconv.ParseFloat(string(bytes.TrimSpace(field)), 64)
	if err != nil || n != math.Trunc(n) || n <= 0 || n > math.MaxInt32 {
		return 0, errNoPID
	}
	return int(n), nil
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
