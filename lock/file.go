package lock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/platform"
)

// Suffixes of the files beside a lock file.
const (
	siblingSuffix = ".flock"
	markerSuffix  = ".reclaim"
)

// maxBase leaves room for the longest suffix, that of a marker for a marker, in the
// 255 bytes that filesystems allow.
const maxBase = 255 - len(markerSuffix) - len(".") - 2*16

// modeShared is LockInfo.Mode of a reader.
const modeShared = "shared"

// DefaultStaleAfter is the age beyond which a claim that proves nothing is taken
// for a dead holder's. Source: seed agency.
const DefaultStaleAfter = 2 * time.Hour

// File is a lock, named by the path of its lock file. The zero value works once
// Path is set; a File may be copied, and used by several goroutines at once.
type File struct {
	// Path is the lock file, for example "data/.lock". Beside it appear
	// Path+".flock", which stays for good and must never be removed, and for
	// moments Path+".reclaim". The folder must exist and be writable.
	Path string

	// Cmd is kept in the lock file, to tell people what the holder is doing. It
	// may have up to 8 KiB.
	Cmd string

	// StaleAfter is the age beyond which a claim that proves nothing (a bare pid
	// that exists, or another host's) is taken for a dead holder's. A negative
	// value means never. The age of a holder that is proven alive plays no part.
	//
	// 0 means DefaultStaleAfter; but only a value that the caller has set lets
	// age decide on a file whose content is no claim, nor the beginning of one, as
	// that may be somebody's data, put there by mistake.
	//
	// In fallback mode, and on filesystems that are not trusted, the holder
	// renews its claim three times in this span, so all who use one lock should
	// agree on it.
	StaleAfter time.Duration

	// RequireKernelLock makes acquiring fail with ErrUnsupported where the
	// kernel can't prove whether a holder lives, rather than go by its rules on
	// pid and age.
	RequireKernelLock bool

	// OnWait, if set, is called when an Acquire has waited for OnWaitAfter (0
	// means a second), with who is in the way. It is called once at most, in
	// another goroutine, and not after Acquire has returned; Acquire waits for
	// it to return.
	OnWait      func(*ErrLocked)
	OnWaitAfter time.Duration

	// Observer, if set, is told what becomes of the lock.
	Observer Observer

	// Fields and Parse, if set, make the lock file one that other programs
	// understand, which have a format of their own.
	//
	// Fields returns what the claim is to have beyond LockInfo's own fields, by
	// name. It must give the same for the same Nonce, as it is called again when a
	// claim is renewed.
	Fields func(LockInfo) map[string]string
	// Parse reads what is in a lock file, of this program or another. What it
	// returns an error for is nobody's to remove: it stays locked, whatever its
	// age. It must understand what Fields makes.
	Parse func(data []byte) (LockInfo, error)

	// Of RepoLock:
	repoID   string
	clock    func() time.Time
	pidAlive func(int) bool

	// Only tests set these: park is called at each step of the protocol;
	// noKernelLock makes this a system without kernel locks.
	park         func(step)
	noKernelLock bool
}

// attempt is one use of a File, with all that has been found out for it. It
// belongs to one goroutine until it becomes part of a Held.
type attempt struct {
	file   File   // with an absolute path
	beside string // the sibling's path
	fsys   platform.Filesystem
	mode   platform.Mode
	begun  time.Time

	// kernel is the kernel lock on the sibling; nil before step 1, and in
	// fallback mode.
	kernel  *platform.KernelLock
	sibling platform.FileID

	// reclaimed is whom the lock was taken over from; nil if it was free.
	reclaimed *ErrLocked
}

// begin checks f, and finds out where it lies. Nothing is changed.
func (f File) begin(mode platform.Mode) (*attempt, error) {
	if err := checkPath(f.Path); err != nil {
		return nil, err
	}
	if len(f.Cmd) > maxCmd {
		return nil, fmt.Errorf("%w: the cmd for %s has %d bytes; at most %d", ErrInvalidName, f.Path, len(f.Cmd), maxCmd)
	}
	// The process may change its working directory while it holds the lock.
	path, err := absolute(f.Path)
	if err != nil {
		return nil, pathError("resolve", f.Path, err)
	}
	f.Path = path
	fsys, err := platform.FilesystemOf(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lock: the folder for %s does not exist: %w", path, err)
	} else if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	a := &attempt{file: f, beside: path + siblingSuffix, fsys: fsys, mode: mode, begun: time.Now()}
	if !a.queued() {
		a.mode = platform.Exclusive
	}
	return a, nil
}

// queued reports whether those who wait for this lock pass a turnstile. Only
// where they do can there be readers: it is what makes them create the lock file
// one at a time. Elsewhere shared means exclusive.
func (a *attempt) queued() bool {
	return a.fsys.Trusted && platform.HasTurnstile() && !a.file.noKernelLock
}

// absolute does not clean the path: "link/../name" is not "name".
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	if runtime.GOOS == "windows" {
		return filepath.Abs(path) // a path can be relative to a drive's folder
	}
	wd, err := os.Getwd()
	return wd + "/" + path, err
}

func (a *attempt) siblingPath() string { return a.beside }
func (a *attempt) markerPath() string  { return a.file.Path + markerSuffix }

func (a *attempt) now() time.Time {
	if a.file.clock != nil {
		return a.file.clock()
	}
	return time.Now()
}

func (a *attempt) staleAfter() time.Duration {
	if a.file.StaleAfter == 0 {
		return DefaultStaleAfter
	}
	return a.file.StaleAfter
}

// renews reports whether others may have to judge this holder by age, because
// the kernel that they ask may not be the one that knows.
func (a *attempt) renews() bool { return a.kernel == nil || !a.fsys.Trusted }

// at tells a test which step the protocol has reached.
func (a *attempt) at(s step) {
	if a.file.park != nil {
		a.file.park(s)
	}
}

// step names a point of the protocol at which a process can die.
type step string

const (
	stepKernelLocked   step = "kernel lock taken"
	stepSiblingChecked step = "sibling checked"
	stepCreated        step = "lock file created"
	stepWritten        step = "claim written"
	stepComplete       step = "claim complete"

	stepMarkerCreated  step = "marker created"
	stepMarkerWritten  step = "marker written"
	stepMarkerComplete step = "marker complete"
	stepReread         step = "dead claim read again"
	stepReplaced       step = "dead claim replaced"

	stepOwned    step = "ownership checked"
	stepRemoved  step = "lock file removed"
	stepUnlocked step = "kernel lock dropped"
)

// newNonce returns 16 random bytes, in base32.
func newNonce() string { return rand.Text() }

// checkPath refuses what can't be a lock's path, before anything is touched.
func checkPath(path string) error {
	base := filepath.Base(path)
	switch {
	case path == "":
		return fmt.Errorf("%w: the lock's path is empty", ErrInvalidName)
	case strings.ContainsRune(path, 0):
		return fmt.Errorf("%w: lock path %q has a NUL", ErrInvalidName, path)
	case base == "." || base == ".." || path[len(path)-1] == '/' || path[len(path)-1] == filepath.Separator:
		return fmt.Errorf("%w: lock path %q names a folder", ErrInvalidName, path)
	case len(base) > maxBase:
		return fmt.Errorf("%w: the name in lock path %q has %d bytes; the files beside it leave room for %d", ErrInvalidName, path, len(base), maxBase)
	case isOurs(base):
		return fmt.Errorf("%w: lock path %q has a suffix of the files beside a lock", ErrInvalidName, path)
	}
	return nil
}

// isOurs reports whether a file's name is one that stands beside a lock file.
func isOurs(name string) bool {
	return strings.HasSuffix(name, siblingSuffix) || strings.HasSuffix(name, markerSuffix) ||
		strings.Contains(name, markerSuffix+".")
}

// checkName refuses a name that can't safely be one element of a path.
func checkName(what, name string) error {
	bad := func(why string) error { return fmt.Errorf("%w: %s %q %s", ErrInvalidName, what, name, why) }
	switch {
	case name == "":
		return bad("is empty")
	case name == "." || name == "..":
		return bad("names a folder")
	case len(name) > 255:
		return bad("is longer than 255 bytes")
	case strings.ContainsAny(name, `/\`):
		return bad("has a path separator")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }):
		return bad("has a control character, or is not UTF-8")
	case !filepath.IsLocal(name):
		return bad("is not a file name on this system")
	}
	return nil
}
