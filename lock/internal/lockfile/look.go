package lockfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/platform"
)

// A Finding is a lock file, or a marker, as it lay on disk at one moment. The caller of Look,
// or LookLocked, closes it.
type Finding struct {
	Path    string
	File    *platform.File // open; nil if it can't be
	Info    platform.Info
	Data    []byte
	Content evidence.Content
	Claim   *evidence.Said // nil unless Content is ContentClaim
}

// Look opens the file at path and reads what it says. The error matches fs.ErrNotExist when
// nothing is there. Content that can't be understood is no error.
func (l *Lock) Look(path string) (*Finding, error) {
	f, err := l.find(path)
	if err != nil || f.File == nil {
		return f, err
	}
	if err := f.read(l, f.File); err != nil {
		return nil, fail.Join(err, f.File.Close())
	}
	return f, nil
}

// find is look for a caller that reads the file later.
func (l *Lock) find(path string) (*Finding, error) {
	f := &Finding{Path: path}
	var err error
	switch f.File, err = l.Open(path); {
	case err == nil:
	case errors.Is(err, platform.ErrNotRegular):
		f.Content = evidence.ContentAlien
	case errors.Is(err, platform.ErrLeased):
		f.Content = evidence.ContentLeased
	case errors.Is(err, fs.ErrPermission):
		f.Content = evidence.ContentForbidden
	default:
		return nil, err
	}
	return f, nil
}

// read reads the file, and makes f what it finds. The file stays open, also after an error.
func (f *Finding) read(l *Lock, file *platform.File) (err error) {
	*f = Finding{Path: f.Path, File: file}
	if f.Info, err = file.Stat(); err == nil {
		f.Data, err = readClaim(file)
	}
	switch {
	case errors.Is(err, platform.ErrTooLarge):
		f.Content = evidence.ContentAlien
		return nil
	case err != nil:
		return err
	}
	f.Claim, err = l.decode(f.Data)
	switch {
	case err == nil:
	case errors.Is(err, errParse):
		return err
	case l.Parse != nil && !(f.Info.Marked() && f.isDebris()):
		f.Content, f.Claim = evidence.ContentAlien, nil
	// Somebody's data may lie at the path by mistake. Only a caller that says that age counts has
	// it taken for a dead holder's.
	case !f.isDebris() && l.StaleAfter == 0:
		f.Content, f.Claim = evidence.ContentAlien, nil
	default:
		f.Content, f.Claim = evidence.ContentNone, nil
	}
	return nil
}

// readClaim reads a lock file. Of one that is too large for a claim it reads the first line,
// if that is a claim of ours, whatever was appended. The error matches platform.ErrTooLarge
// for others.
func readClaim(file *platform.File) ([]byte, error) {
	data, err := file.Read(evidence.MaxClaim)
	if !errors.Is(err, platform.ErrTooLarge) {
		return data, err
	}
	head := make([]byte, evidence.MaxClaim)
	n, rerr := file.ReadAt(head, 0)
	if line := evidence.ClaimIn(head[:n]); rerr == nil && len(line) < n {
		return line, nil
	}
	return nil, fail.Join(err, rerr)
}

func (f *Finding) Close() error { return f.File.Close() }

// Holder is the claim of the holder that the file names; nil if it names none.
func (f *Finding) Holder() *evidence.Claim {
	if f.Claim == nil {
		return nil
	}
	return &f.Claim.Claim
}

// decode reads a claim, in the format of the File.
func (l *Lock) decode(data []byte) (*evidence.Said, error) {
	data = evidence.ClaimIn(data)
	if l.Parse == nil {
		return evidence.Decode(data)
	}
	info, err := l.Parse(data)
	if err != nil {
		return nil, err
	}
	if info.CreatedAt.IsZero() {
		return nil, fmt.Errorf("%w, which returned neither an error nor a CreatedAt", errParse)
	}
	c := &evidence.Said{Claim: evidence.Claim{PID: info.PID, CreatedAt: info.CreatedAt, Cmd: info.Cmd, Nonce: info.Nonce, Hostname: info.Hostname}}
	if ours := evidence.DecodeOurs(data); ours != nil {
		ours.PID, ours.CreatedAt, ours.Cmd = c.PID, c.CreatedAt, c.Cmd
		c = ours
	}
	return c, c.Check()
}

// errParse is the error for a Format that breaks its promise.
var errParse = fmt.Errorf("%w: the fault is in Format.Parse", ErrInvalidName)

// isDebris reports whether a file without a claim holds only what a crash leaves of one:
// its beginning, or NULs (after a loss of power).
func (f *Finding) isDebris() bool {
	return strings.HasPrefix(`{"pid":`, string(f.Data)) || f.isNULs() ||
		bytes.HasPrefix(f.Data, []byte(`{"pid":`)) && !json.Valid(f.Data)
}

func (f *Finding) isNULs() bool { return len(f.Data) > 0 && len(bytes.Trim(f.Data, "\x00")) == 0 }

// same reports whether a file still says what was found, and nobody has touched it.
func (f *Finding) same() (bool, error) {
	data, err := readClaim(f.File)
	if err != nil || !bytes.Equal(data, f.Data) {
		return false, err
	}
	info, err := f.File.Stat()
	return err == nil && info == f.Info && info.Links > 0, err
}

// Open opens the file at path, to be locked and read. It need not be writable: only
// NFSv4 wants that, for an exclusive lock.
func (l *Lock) Open(path string) (*platform.File, error) {
	if !l.Fsys.Trusted {
		f, err := platform.Open(path, os.O_RDWR)
		if !errors.Is(err, fs.ErrPermission) {
			return f, err
		}
	}
	return platform.Open(path, os.O_RDONLY)
}

func (f *Finding) IsShared() bool { return f.Claim != nil && f.Claim.Mode == evidence.ModeShared }
