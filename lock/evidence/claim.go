package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/plainjson"
)

// A Claim is what a lock file says of its holder, as one JSON object.
//
// PID, CreatedAt and Cmd are those of the agency command's lock file, and all that a program
// needs to write in order to take part. Hostname and Nonce are read in any claim. The other
// fields say which process that pid meant. They count only in a claim that this package wrote,
// which shows by a field "holdfast": the number of the format, 1. Behind it, "released" is
// false. A holder that could not remove the file, or has left it to its children, sets it.
// Readers tolerate fields that they do not know.
type Claim struct {
	PID       int       `json:"pid"`
	CreatedAt time.Time `json:"created_at"`
	Cmd       string    `json:"cmd,omitempty"`

	// OwnerPID is the process for whose life the holder has the lock (File.OwnerPID); 0 for
	// a holder that has it for itself.
	OwnerPID int `json:"owner_pid,omitempty"`

	// Nonce is unique to one holding of one lock.
	Nonce    string `json:"nonce,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// User is the holder's user, by name, and Dir the working directory of its process when that
	// first acquired a lock; for people. A directory whose path is longer than a KiB is left out.
	User string `json:"user,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// BootID differs between any two boots of any two machines.
	BootID string `json:"boot_id,omitempty"`
	// PIDNamespace, TimeNamespace, Start and PIDFD are those of platform.Process.
	PIDNamespace  uint64 `json:"pid_ns,omitempty"`
	TimeNamespace uint64 `json:"time_ns,omitempty"`
	Start         uint64 `json:"start,omitempty"`
	PIDFD         uint64 `json:"pidfd,omitempty"`
	// KernelLock names the file whose kernel lock the holder has had since before it wrote
	// this, as "filesystem:device:inode": the lock file itself (on Windows, the sibling).
	// It is empty in fallback mode, and on a filesystem that the holder did not trust.
	KernelLock string `json:"kernel_lock,omitempty"`
	// Mode is "shared", or empty for an exclusive holder.
	Mode string `json:"mode,omitempty"`
	// RenewedAt is when a holder without a trustworthy kernel lock last said that it lives,
	// in whole seconds. StaleAfter is its File's, in nanoseconds.
	RenewedAt  time.Time     `json:"renewed_at,omitzero"`
	StaleAfter time.Duration `json:"stale_after,omitempty"`
}

// ModeShared is Claim.Mode of a reader.
const ModeShared = "shared"

// MaxCmd keeps the claim below MaxClaim: a byte of Cmd may take six in it.
const MaxCmd = 8 << 10

// MaxClaim is the size up to which a lock file is read. A larger one was not written by a
// program that speaks this protocol.
const MaxClaim = 64 << 10

// Said is a claim as it lies on disk, or in memory as it was read there.
type Said struct {
	Claim
	Ours     bool // this package wrote it, so that its fields mean what Claim says
	Released bool // by a holder that could not remove the file, or has left it to children
}

// SayReleased returns what a holder writes over its encoded claim, and where, to say that it
// has released the lock; at is negative if the claim has no place for it.
func SayReleased(claim []byte) (text string, at int64) {
	return isReleased, int64(bytes.Index(claim, []byte(notReleased)))
}

// How a claim says whether it was released. The texts have one length, so that one can be
// written over the other.
const (
	notReleased = `"released":false`
	isReleased  = `"released":true `
)

// Renewed returns when the holder last said that it lives, or up to a second later: the time
// in the claim has no fraction.
func (c *Claim) Renewed() time.Time {
	if said := c.RenewedAt.Add(time.Second); !c.RenewedAt.IsZero() && said.After(c.CreatedAt) {
		return said
	}
	return c.CreatedAt
}

// Encode gives the claim as one line of JSON, byte for byte what package json would make of
// it, with further fields behind. Package json takes 30 µs when its caches are cold. They are
// cold in a process that has waited, and all waiters behind wait for it.
func (c *Claim) Encode(further map[string]string) ([]byte, error) {
	for _, t := range []time.Time{c.CreatedAt, c.RenewedAt} {
		if y := t.Year(); y < 0 || y > 9999 {
			return nil, fmt.Errorf("the year %d has no place in it", y)
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
			b = plainjson.Append(append(b, name...), s)
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
			return nil, fmt.Errorf("the claim has a field %q of its own", name)
		}
		b = plainjson.Append(append(b, ','), name)
		b = plainjson.Append(append(b, ':'), further[name])
	}
	if b = append(b, "}\n"...); len(b) > MaxClaim {
		return nil, fmt.Errorf("the claim has %d bytes; at most %d", len(b), MaxClaim)
	}
	return b, nil
}

// fieldNames are the names of a claim's own fields.
var fieldNames = []string{"pid", "created_at", "cmd", "owner_pid", "holdfast", "released", "nonce", "hostname", "user", "dir", "boot_id", "pid_ns",
	"time_ns", "start", "pidfd", "kernel_lock", "mode", "renewed_at", "stale_after"}

var (
	errNoPID       = errors.New("no usable pid")
	errNoCreatedAt = errors.New("no created_at")
)

// Decode reads a claim, of this package or another program. Of another program's, pid,
// created_at and hostname count, and cmd and nonce are shown; no other field can make it
// unreadable. A claim without a possible pid, or without a time, is no claim.
func Decode(data []byte) (*Said, error) {
	c := DecodeOurs(data)
	if c == nil {
		var err error
		if c, err = decodeOthers(data); err != nil {
			return nil, err
		}
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return c, nil
}

func decodeOthers(data []byte) (*Said, error) {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(data, &fields)
	if err != nil {
		return nil, err
	}
	var c Said
	if c.PID, err = decodePID(fields["pid"]); err != nil {
		return nil, err
	}
	if json.Unmarshal(fields["created_at"], &c.CreatedAt) != nil {
		return nil, errNoCreatedAt
	}
	_ = json.Unmarshal(fields["cmd"], &c.Cmd)
	_ = json.Unmarshal(fields["hostname"], &c.Hostname)
	_ = json.Unmarshal(fields["nonce"], &c.Nonce)
	return &c, nil
}

// ClaimIn returns the part of a file that is a claim: all of it, or its first line if that is
// a whole claim of this package. What another program has appended does not make it less of a
// claim.
func ClaimIn(data []byte) []byte {
	line, more, ended := bytes.Cut(data, []byte{'\n'})
	if ended && len(more) > 0 && DecodeOurs(line) != nil {
		return line
	}
	return data
}

// DecodeOurs reads a claim of this package, all of whose fields count; nil for others.
func DecodeOurs(data []byte) *Said {
	var c struct {
		Format   int   `json:"holdfast"`
		Released *bool `json:"released"`
		Claim
	}
	if !bytes.Contains(data, []byte(`"holdfast"`)) || json.Unmarshal(data, &c) != nil || c.Format < 1 || c.Released == nil {
		return nil
	}
	return &Said{Claim: c.Claim, Ours: true, Released: *c.Released}
}

// decodePID takes a whole number in any form that JSON has for it.
func decodePID(field json.RawMessage) (int, error) {
	n, err := strconv.ParseFloat(string(bytes.TrimSpace(field)), 64)
	if err != nil || n != math.Trunc(n) || n <= 0 || n > math.MaxInt32 {
		return 0, errNoPID
	}
	return int(n), nil
}

// Check refuses what can't name a holder.
func (c *Claim) Check() error {
	if c.PID <= 0 || c.PID > math.MaxInt32 {
		return errNoPID
	}
	if c.CreatedAt.IsZero() {
		return errNoCreatedAt
	}
	return nil
}

// String is Describe without the age.
func (c Claim) String() string { return c.Describe(time.Time{}) }

// LogValue gives a holder as a group: pid, host, cmd and since, and user and owner_pid if it has
// them.
func (c Claim) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int("pid", c.PID), slog.String("host", c.Hostname), slog.String("cmd", c.Cmd), slog.Time("since", c.CreatedAt)}
	if c.User != "" {
		attrs = append(attrs, slog.String("user", c.User))
	}
	if c.OwnerPID != 0 {
		attrs = append(attrs, slog.Int("owner_pid", c.OwnerPID))
	}
	return slog.GroupValue(attrs...)
}

// Describe gives a holder in words, in one line that is safe to show: who, what, where, since
// when. now is the time by which its age is counted; zero leaves that out.
func (c *Claim) Describe(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pid %d", c.PID)
	if c.Cmd != "" {
		fmt.Fprintf(&b, " (%q)", c.Cmd)
	}
	if c.Hostname != "" {
		fmt.Fprintf(&b, " on %q", c.Hostname)
	}
	if c.User != "" {
		fmt.Fprintf(&b, " as %q", c.User)
	}
	if c.OwnerPID != 0 {
		fmt.Fprintf(&b, ", session of pid %d,", c.OwnerPID)
	}
	if c.CreatedAt.IsZero() {
		return b.String()
	}
	fmt.Fprintf(&b, " since %s", c.CreatedAt.Format(time.RFC3339))
	if age := now.Sub(c.CreatedAt); age >= 0 && !now.IsZero() {
		fmt.Fprintf(&b, ", %s ago", age.Round(time.Second))
	}
	return b.String()
}
