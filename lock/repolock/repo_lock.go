// Package repolock is the agency command's lock: one writer for each repository's data. Its names,
// its fields and its lock file are that command's own, to the letter, so that programs of both
// kinds keep each other out (see FORMATS.md).
//
//	unlock, err := repolock.NewRepoLock(dataDir).Lock("repo-7", "push")
//	if err != nil {
//		return err // an *ErrLocked, if somebody else has it
//	}
//	defer unlock()
package repolock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/rule"
	"github.com/holdfast-go/holdfast/platform"
)

// LockInfo is what the agency command's lock file says of its holder. holdfast writes these
// fields first, and others behind them: see evidence.Claim.
type LockInfo struct {
	PID       int       `json:"pid"`
	CreatedAt time.Time `json:"created_at"`
	Cmd       string    `json:"cmd,omitempty"`
}

// RepoLock serialises the writers of one repository's data. It is a lock.File with the agency
// command's rule for that command's claims, a bare pid, created_at and cmd. It has had two:
//
//   - such a claim is stale when its pid is not alive, or when it is older than StaleAfter;
//   - with PIDAlone, which its newer versions do: when its pid is not alive, however old it is.
//
// By both, a file that holds no claim (it is empty, cut short, or garbage) is stale when it was
// written longer ago than StaleAfter. Here, a claim without created_at is none.
//
// Where the kernel has proof, the proof wins. A holder proven to be alive keeps the lock,
// whatever its age, and whatever IsPIDAlive says of its pid. One proven to be dead is taken
// over at once.
//
// The zero value works, relative to the working directory. A RepoLock may be copied, and used by
// several goroutines at once, if Now and IsPIDAlive may.
type RepoLock struct {
	// DataDir is the folder that has, or is to have, the folder "repos".
	DataDir string
	// StaleAfter is the age beyond which a claim that proves nothing, or a file that holds no
	// claim, is a dead holder's. 0 means two hours; a negative value, that age proves
	// nothing of either.
	StaleAfter time.Duration
	// Now is the clock for what is written and for ages; nil, or one that was
	// never set and shows the zero time, means time.Now.
	Now func() time.Time
	// IsPIDAlive is asked about pids in claims that prove nothing; nil means
	// the system's own check. It must say true when it can't tell.
	IsPIDAlive func(pid int) bool
	// PIDAlone leaves StaleAfter to files that hold no claim. Another program's claim is then
	// stale when IsPIDAlive says so, and otherwise held, at any age. The command's older
	// versions, beside this one, still go by age.
	PIDAlone bool
}

// NewRepoLock returns a RepoLock for a data folder with the defaults: StaleAfter
// two hours, for claims as well, time.Now, and the system's check on pids.
func NewRepoLock(dataDir string) RepoLock {
	return RepoLock{DataDir: dataDir, StaleAfter: lock.DefaultStaleAfter, Now: time.Now, IsPIDAlive: pidAlive}
}

// ErrLocked is what RepoLock.Lock returns, as a pointer, when the lock is held, or may be. Its
// name and its fields are the agency command's. It wraps a *lock.LockedError, which tells the rest.
type ErrLocked struct {
	RepoID string
	// Info is the holder's claim; nil if there is none, or it is unreadable.
	Info *LockInfo
	// Path is the lock file, absolute.
	Path string

	locked *lock.LockedError
}

// Error is the message of the lock.LockedError, with the repository's id.
func (e *ErrLocked) Error() string {
	if e.locked == nil {
		return fmt.Sprintf("locked: %s (repo %q)", e.Path, e.RepoID)
	}
	return fmt.Sprintf("repo %q is %v", e.RepoID, e.locked)
}

// Unwrap returns the *lock.LockedError; nil in an ErrLocked that Lock did not make.
func (e *ErrLocked) Unwrap() error {
	if e.locked == nil {
		return nil
	}
	return e.locked
}

// Lock acquires the lock of a repository, ${DataDir}/repos/<repoID>/.lock, and returns the
// function that releases it. It does not wait: when somebody else has the lock, the error is
// an *ErrLocked. An id that can't be the name of a folder is an error that matches
// lock.ErrInvalidName, and nothing is written. Other errors are those of
// lock.File.TryAcquire, and the system's. After any error the lock is not held. Folders that
// are missing are made, and stay. cmd is kept in the lock file for people, and may be empty.
//
// unlock may be called from any goroutine. A second call returns nil. Its errors are those of
// lock.FileHold.Release. The agency command's unlock accepts a missing lock file, or removes
// whatever file is there. This one then returns lock.ErrLost, and leaves the file alone.
func (l RepoLock) Lock(repoID string, cmd string) (unlock func() error, err error) {
	if err := checkID(repoID); err != nil {
		return nil, err
	}
	dir := filepath.Join(l.DataDir, "repos", repoID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("repolock: make folder for %s: %w", dir, err)
	}
	file := lock.File{
		Path:       filepath.Join(dir, ".lock"),
		Cmd:        cmd,
		StaleAfter: l.StaleAfter,
		Format:     &lock.Format{Rule: &rule.Rule{Now: l.now, Amend: l.amend}},
	}
	if file.StaleAfter == 0 {
		file.StaleAfter = lock.DefaultStaleAfter // said, so that it counts for garbage too
	}
	held, err := file.TryAcquire(context.Background())
	if locked := (*lock.LockedError)(nil); errors.As(err, &locked) {
		e := &ErrLocked{RepoID: repoID, Path: locked.Path, locked: locked}
		if c := locked.Info; c != nil {
			e.Info = &LockInfo{PID: c.PID, CreatedAt: c.CreatedAt, Cmd: c.Cmd}
		}
		return nil, e
	} else if err != nil {
		return nil, err
	}
	return held.Release, nil
}

// now is the caller's clock.
func (l RepoLock) now() time.Time {
	if l.Now != nil {
		if t := l.Now(); !t.IsZero() {
			return t
		}
	}
	return time.Now()
}

// amend makes the agency command's rule of the ladder's for claims that prove nothing. When a
// process began proves nothing by it.
func (l RepoLock) amend(c *evidence.Said, f *evidence.Facts) {
	f.Began = false
	if !c.Ours && l.PIDAlone {
		f.StaleAfter = -1
	}
	if f.Origin != evidence.OriginHere || c.Start != 0 || c.PIDFD != 0 || l.IsPIDAlive == nil {
		return
	}
	f.Process = evidence.Gone
	if l.IsPIDAlive(c.PID) {
		f.Process = evidence.Exists
	}
}

// pidAlive reports whether a process has this pid; true if that can't be told.
func pidAlive(pid int) bool { return platform.Probe(platform.Process{PID: pid}) != platform.Gone }

// checkID refuses an id that can't safely be one element of a path.
func checkID(id string) error {
	bad := func(why string) error { return fmt.Errorf("%w: repo id %q %s", lock.ErrInvalidName, id, why) }
	switch {
	case id == "":
		return bad("is empty")
	case id == "." || id == "..":
		return bad("names a folder")
	case len(id) > 255:
		return bad("is longer than 255 bytes")
	case strings.ContainsAny(id, `/\`):
		return bad("has a path separator")
	case strings.ContainsFunc(id, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }):
		return bad("has a control character, or is not UTF-8")
	case !filepath.IsLocal(id):
		return bad("is not a file name on this system")
	}
	return nil
}
