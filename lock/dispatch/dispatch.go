// Package dispatch keeps two dispatchers from starting the same thing twice. It keeps one
// claim for each id: a lock file in a folder, in a format that programs in other languages
// share.
//
//	claim, err := dispatch.Locks{Dir: dir}.Acquire(ctx, id)
//	var conflict *dispatch.ConflictError
//	if errors.As(err, &conflict) {
//		return conflict // somebody else has it: who, since when, on what evidence
//	}
//	defer claim.Release()
//
// The lock file, DIR/ID.lock, holds one JSON object:
//
//	{"gardenId":"...","pid":1,"hostname":"...","createdAt":"2026-01-02T03:04:05.678Z",
//	 "nonce":"...","owner":"entwurf_v2","lockPath":"/..."}
//
// with further fields, those of evidence.Claim, which others ignore. Other programs can take
// part. They create such a file with O_EXCL, and remove it only while their own nonce is in
// it. They take over a dead holder's file under DIR/ID.lock.reclaim, created with O_EXCL
// and kept open.
//
// A claim has mode 0644, whatever the umask, as other programs' have: all that can enter the
// folder can read it. All that may write to the folder can take part.
//
// Age decides nothing here. A claim is taken over only if its holder is proven dead: by the
// kernel lock of its file, if the holder took one, so that a pid which was used again does
// not keep an id for ever; or else by its pid, on the same host. A file that is empty,
// corrupt, or another id's, is left alone, and is a ConflictError.
//
// The format is that of entwurf's dispatchers: see FORMATS.md.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// Owner is what every claim names as its owner, in entwurf's words.
const Owner = "entwurf_v2"

// DefaultID is what an id looks like unless Locks.ID says otherwise.
var DefaultID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// DefaultDir returns the folder that entwurf's dispatchers share,
// ~/.pi/entwurf-v2-locks, for Locks.Dir.
func DefaultDir() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("dispatch: %w", err)
	}
	return filepath.Join(home, ".pi", "entwurf-v2-locks"), nil
}

// Locks is a folder of claims. It works once Dir is set; Locks may be copied, and used
// by several goroutines at once.
type Locks struct {
	// Dir is the folder; it is made if it is missing. See DefaultDir.
	Dir string
	// ID is what ids must match, besides being possible as names of files. nil
	// means DefaultID.
	ID *regexp.Regexp
	// Observe is told what becomes of the locks.
	Observe func(lock.Event)
}

// perm is the mode that the format's own programs give their files: all that may enter the
// folder can read claims.
const perm = 0o644

// Acquire claims an id, and does not wait.
//
// On success the claim is on disk, and its Release gives it up. When somebody else has it,
// or may have it, or when what lies there can't be understood, the error is a
// *ConflictError. Any other error is no conflict: lock.ErrInvalidName for an id that is
// refused, or a Dir that is not set, and the system's errors for the rest. With any error
// nothing of ours is left but the folder. The last process to need the file of the queue,
// ID.lock.flock, removes it (see lock.File.Tidy).
func (l Locks) Acquire(ctx context.Context, id string) (*Claim, error) {
	path, err := l.path(id)
	if err != nil {
		return nil, err
	}
	file := lock.File{
		Path:       path,
		Cmd:        "dispatch " + id,
		StaleAfter: -1, // a claim is never taken by its age
		Perm:       perm,
		Tidy:       true,
		Observe:    l.Observe,
		Format: &lock.Format{
			Fields: func(c evidence.Claim) map[string]string {
				return map[string]string{
					"gardenId": id, "createdAt": c.CreatedAt.Format(timeFormat), "owner": Owner, "lockPath": path,
				}
			},
			Parse: func(data []byte) (evidence.Claim, error) { return parse(data, id) },
		},
	}
	held, err := file.TryAcquire(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, fmt.Errorf("dispatch: %w", err)
		}
		held, err = file.TryAcquire(ctx)
	}
	var locked *lock.LockedError
	if errors.As(err, &locked) {
		return nil, newConflict(id, locked)
	} else if err != nil {
		if c := notPermitted(ctx, id, file, err); c != nil {
			return nil, c
		}
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	claim := newClaim(id, path, held.Info())
	claim.release = &release{held: held}
	return claim, nil
}

// path returns the lock file for an id, as an absolute path.
func (l Locks) path(id string) (string, error) {
	pattern := l.ID
	if pattern == nil {
		pattern = DefaultID
	}
	// Whatever the pattern admits, an id must be one element of a path, and not a hidden
	// one.
	if !pattern.MatchString(id) || id == "" || id[0] == '.' || !filepath.IsLocal(id) || filepath.Base(id) != id ||
		!utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return "", fmt.Errorf("dispatch: %w: id %q", lock.ErrInvalidName, id)
	}
	if l.Dir == "" {
		return "", fmt.Errorf("dispatch: %w: the folder of the claims is not named", lock.ErrInvalidName)
	}
	dir, err := filepath.Abs(l.Dir)
	if err != nil {
		return "", fmt.Errorf("dispatch: %w", err)
	}
	return filepath.Join(dir, id+".lock"), nil
}

// timeFormat is that of Date.toISOString.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"
