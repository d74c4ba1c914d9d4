package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// Claim is a claim on an id, as it is on disk. Its nonce is the right to release
// it.
type Claim struct {
	GardenID  string `json:"gardenId"`
	PID       int    `json:"pid"`
	Hostname  string `json:"hostname"`
	CreatedAt string `json:"createdAt"` // for people
	Nonce     string `json:"nonce"`
	Owner     string `json:"owner"`
	LockPath  string `json:"lockPath"`

	release *release // of a claim of our own; its copies share it
}

// release is the end of a claim, which comes once.
type release struct {
	mu   sync.Mutex     // guards held
	held *lock.FileHold // nil when released, or lost
}

// Outcome is what Release found.
type Outcome string

const (
	OutcomeReleased Outcome = "released"  // the claim was ours, and is gone
	OutcomeNotOwned Outcome = "not-owned" // what lies there is not this claim; it was left alone
	OutcomeAbsent   Outcome = "absent"    // there was nothing any more
)

// Release gives up the claim. Of all calls, in whatever goroutine and on whatever copy, one
// returns OutcomeReleased. A claim that was lost, or that a ConflictError has shown, is left
// alone. After an error the claim is given up all the same: its file is left, and says so to
// programs that use this package. See lock.FileHold.Release.
func (c *Claim) Release() (Outcome, error) {
	if c.release == nil {
		return c.notReleased()
	}
	c.release.mu.Lock()
	defer c.release.mu.Unlock()
	if c.release.held == nil {
		return c.notReleased()
	}
	err := c.release.held.Release()
	c.release.held = nil
	switch {
	case err == nil:
		return OutcomeReleased, nil
	case errors.Is(err, lock.ErrLost):
		return c.notReleased()
	}
	return "", fmt.Errorf("dispatch: %w", err)
}

func (c *Claim) notReleased() (Outcome, error) {
	_, err := os.Lstat(c.LockPath)
	switch {
	case err == nil:
		return OutcomeNotOwned, nil
	case errors.Is(err, fs.ErrNotExist):
		return OutcomeAbsent, nil
	}
	return "", fmt.Errorf("dispatch: %w", err)
}

func newClaim(id, path string, info evidence.Claim) *Claim {
	return &Claim{
		GardenID: id, PID: info.PID, Hostname: info.Hostname, CreatedAt: info.CreatedAt.Format(timeFormat),
		Nonce: info.Nonce, Owner: Owner, LockPath: path,
	}
}

// parse reads a claim on an id, ours or another program's. All of the fields must be there,
// and of this id, since the path says whose claim it is. Further fields mean nothing.
func parse(data []byte, id string) (evidence.Claim, error) {
	fields, err := exact(data)
	if err != nil {
		return evidence.Claim{}, err
	}
	var gardenID, createdAt, owner string
	var info evidence.Claim
	for name, into := range map[string]*string{
		"gardenId": &gardenID, "hostname": &info.Hostname, "createdAt": &createdAt, "nonce": &info.Nonce, "owner": &owner,
	} {
		if field := fields[name]; field == nil || field[0] != '"' || json.Unmarshal(field, into) != nil {
			return info, fmt.Errorf("%s is missing, or is no text", name)
		}
	}
	var pid float64 // as any way to write a whole number counts
	if err := json.Unmarshal(fields["pid"], &pid); err != nil || pid != math.Trunc(pid) || pid < 1 || pid > math.MaxInt32 {
		return info, errors.New("no usable pid")
	}
	info.PID = int(pid)
	switch {
	case gardenID != id:
		return info, errors.New("not a claim on this id")
	case owner != Owner:
		return info, errors.New("not a claim of this kind")
	case info.Hostname == "":
		return info, errors.New("no host")
	}
	// Nothing depends on the time, so one that can't be read is no error.
	info.CreatedAt = time.Unix(0, 0).UTC()
	if t, err := time.Parse(time.RFC3339, createdAt); err == nil && !t.IsZero() {
		info.CreatedAt = t.UTC()
	}
	return info, nil
}

// fieldNames are those that other programs read.
var fieldNames = []string{"gardenId", "pid", "hostname", "createdAt", "nonce", "owner"}

// exact gives an object as other programs understand it. Of a field that is there twice the
// last counts. "PID" is not "pid", but package json may take it for that.
func exact(data []byte) (all map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for name := range all {
		for _, ours := range fieldNames {
			if name != ours && strings.EqualFold(name, ours) {
				return nil, fmt.Errorf("a field %q, which is not %q", name, ours)
			}
		}
	}
	return all, nil
}

// TargetLocked is the reason of every ConflictError, in entwurf's words.
const TargetLocked = "target-locked"

// ConflictError is returned, as a pointer, when an id is claimed already, or may be.
type ConflictError struct {
	Reason   string `json:"reason"` // TargetLocked
	LockPath string `json:"lockPath"`
	// Holder is nil when the lock file is empty or corrupt, or another id's. It is also nil
	// when the process in the way has not written a claim: it has just come, or is taking
	// over a dead one. A process that takes over by a claim of its own is the Holder.
	Holder *Claim `json:"holder"`
	// Detail tells people what is known, and what to do.
	Detail string `json:"detail"`

	locked *lock.LockedError
}

func (c *ConflictError) Error() string { return "dispatch: " + c.Detail }

// Unwrap returns the *lock.LockedError, with its state and the evidence.
func (c *ConflictError) Unwrap() error { return c.locked }

func newConflict(id string, locked *lock.LockedError) *ConflictError {
	c := &ConflictError{Reason: TargetLocked, LockPath: locked.Path, locked: locked}
	if locked.Info != nil {
		c.Holder = newClaim(id, locked.Path, *locked.Info)
	}
	written := writtenAt("file", locked.Path)
	switch {
	case locked.Evidence == evidence.BeingReclaimed:
		marker := locked.Path + ".reclaim"
		c.Detail = fmt.Sprintf("the claim at %s is being taken over: its marker, %s%s, is another's; "+
			"if no dispatcher is at work, remove the marker", locked.Path, marker, writtenAt("marker", marker))
	case locked.Evidence == evidence.NotPermitted:
		c.Detail = fmt.Sprintf("%s%s is %s, and not for this user to read; ask that user, or root, "+
			"to remove it once it is certain that no dispatcher is at work", locked.Path, written, ownerOf(locked.Path))
	case locked.Evidence == evidence.NotALockFile:
		c.Detail = fmt.Sprintf("the file at %s is empty or corrupt, or a claim on another id%s; "+
			"remove it by hand once it is certain that no dispatcher is at work", locked.Path, written)
	case c.Holder == nil:
		c.Detail = fmt.Sprintf("%s is just being acquired or released%s (%s)", locked.Path, written, locked.Evidence)
	case locked.State == evidence.Held:
		c.Detail = fmt.Sprintf("held by pid %d on host %s since %s%s (%s): %s",
			c.Holder.PID, c.Holder.Hostname, c.Holder.CreatedAt, written, locked.Evidence, locked.Path)
	default:
		c.Detail = fmt.Sprintf("may be held by pid %d on host %s since %s%s (%s); if that process is gone, remove %s by hand",
			c.Holder.PID, c.Holder.Hostname, c.Holder.CreatedAt, written, locked.Evidence, locked.Path)
	}
	return c
}

// writtenAt says when a file was written; nothing if it is not there.
func writtenAt(what, path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (%s written %s)", what, info.ModTime().UTC().Format(timeFormat))
}

// ownerOf says whose a file is, and its mode.
func ownerOf(path string) string {
	info, _, err := platform.Look(path)
	if err != nil || info.Owner < 0 {
		return "another user's"
	}
	return fmt.Sprintf("%s's, with mode %04o", platform.UserName(info.Owner), info.Mode.Perm())
}

// notPermitted makes a conflict of an error of the system, if another user's file is the
// reason: as long as that is there, the id may be claimed. Otherwise it returns nil.
func notPermitted(ctx context.Context, id string, file lock.File, err error) *ConflictError {
	if !errors.Is(err, fs.ErrPermission) {
		return nil
	}
	// What stands for a claim first.
	for _, path := range []string{file.Path, file.Path + ".reclaim", file.Path + ".flock"} {
		info, _, lerr := platform.Look(path)
		if lerr != nil || info.Owner < 0 || info.Owner == os.Geteuid() {
			continue
		}
		locked := &lock.LockedError{Status: lock.Status{Path: file.Path, State: evidence.Unknown, Evidence: evidence.NotPermitted}}
		if s, ierr := file.Inspect(ctx); ierr == nil && s.State != evidence.Free {
			locked.State, locked.Evidence, locked.Info = s.State, s.Evidence, s.Info
		}
		c := newConflict(id, locked)
		if locked.State != evidence.Held {
			c.Detail = fmt.Sprintf("%s%s is %s, and this is %s, who can't take it over (%v); ask that user, or root, "+
				"to remove it once it is certain that no dispatcher is at work", path, writtenAt("file", path), ownerOf(path), platform.User(), err)
		}
		return c
	}
	return nil
}
