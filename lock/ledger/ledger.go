package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

const lockName = "ledger.lock"

const (
	// DefaultPrefix begins the names of event files.
	DefaultPrefix = "event-"
	// NoPrefix, as Ledger.Prefix, stands for names that are only numbers.
	NoPrefix = "/"
	// DefaultTimeout is how long to wait for the ledger's lock.
	DefaultTimeout = 5 * time.Second
	// MaxEvent is the size of the largest event, in bytes.
	MaxEvent = 1 << 20
	// MaxSequence is the greatest number of an event: the greatest that every program
	// can read in JSON.
	MaxSequence = 1<<53 - 1
)

// Ledger names a ledger. The zero value works once Dir is set; a Ledger may be
// copied, and used by several goroutines at once.
type Ledger struct {
	// Dir is the folder that has the ledger, as its subfolder "ledger". Appending
	// makes both, if the folder that Dir is in is there.
	Dir string

	// Prefix begins the names of event files. "" means DefaultPrefix; NoPrefix means none,
	// as the published af writes them. In a folder that has only events of another prefix,
	// everything fails with ErrPrefix. PrefixOf finds the prefix.
	Prefix string

	// AgentID names the appending agent in the lock file; "" means the host's name and the
	// pid.
	AgentID string

	// Timeout is how long appending waits for the lock. 0 means DefaultTimeout; a
	// negative value, as long as the context allows.
	Timeout time.Duration

	// NoSync leaves out fsync. That is faster, but a crash of the machine (not of a
	// process) may lose events that were reported done, or leave them empty.
	NoSync bool

	// Observe is told what becomes of the lock.
	Observe func(lock.Event)

	// Only tests set this: it is told which folders are synced.
	synced func(path string)
}

// Append appends an event, which is one JSON value, and returns its sequence number, which
// is 1 for the first.
//
// When it returns nil, the event is on disk for good. When it fails, nothing was appended,
// unless syncing the folder failed: then the event is there, and may be gone after a crash of
// the machine. It waits for the lock while somebody else has it. If that takes too long,
// the error is a *lock.LockedError that matches lock.ErrTimeout.
func (l Ledger) Append(ctx context.Context, event []byte) (sequence int64, err error) {
	return l.AppendBatch(ctx, [][]byte{event})
}

// AppendIfSequence is Append, provided that nobody has appended since the caller looked:
// expected is the number of the last event, 0 for none. Otherwise the error is a
// *SequenceError, which matches ErrSequenceMismatch, and nothing was written.
func (l Ledger) AppendIfSequence(ctx context.Context, event []byte, expected int64) (sequence int64, err error) {
	events := [][]byte{event}
	return l.append(ctx, events, func(w *Writer) (int64, error) { return w.AppendIfSequence(expected, events...) })
}

// AppendBatch appends events with nothing between them, all or none, and returns the number
// of the last one. See Append. A reader may see the first of them a moment before the
// others. After an error that matches ErrUnfinished, all of them will be there once
// somebody has appended again: none of them must be appended anew.
func (l Ledger) AppendBatch(ctx context.Context, events [][]byte) (last int64, err error) {
	return l.append(ctx, events, func(w *Writer) (int64, error) { return w.Append(events...) })
}

// append appends with a lock of its own. If somebody removes the lock file in between, that
// does not undo what was appended, so it is no failure.
func (l Ledger) append(ctx context.Context, events [][]byte, do func(*Writer) (int64, error)) (last int64, err error) {
	if err := l.checkEvents(events); err != nil {
		return 0, err
	}
	err = l.Locked(ctx, func(_ context.Context, w *Writer) error {
		last, err = do(w)
		return err
	})
	if last > 0 && errors.Is(err, lock.ErrLost) {
		err = nil
	}
	return last, err
}

// Locked calls fn with the ledger's lock held, for decisions that must still hold when
// their event is appended. The Writer is for fn alone, and not beyond it. ctx carries the
// hold: appending to this ledger in another way is lock.ErrReentrant. fn's error is
// returned as it is. Without one, the error matches lock.ErrLost if somebody has removed
// the lock file meanwhile.
func (l Ledger) Locked(ctx context.Context, fn func(context.Context, *Writer) error) (err error) {
	if err := l.make(); err != nil {
		return err
	}
	watch := &watch{next: l.Observe}
	f := l.file(watch.Observe)
	held, err := f.AcquireWithin(ctx, l.timeout())
	if err != nil {
		return l.explain(err, f.Path)
	}
	defer func() {
		// A lock file that can't be removed keeps nobody out, and undoes nothing.
		if rerr := held.Release(); err == nil && errors.Is(rerr, lock.ErrLost) {
			err = rerr
		}
	}()
	w, err := l.open(watch.reclaimed)
	if err != nil {
		return err
	}
	defer w.close()
	return fn(held.Context(ctx), w)
}

// watch notices that the lock is taken over from a dead writer.
type watch struct {
	next      func(lock.Event)
	reclaimed bool
}

func (w *watch) Observe(e lock.Event) {
	if e.Kind == lock.EventReclaimed {
		w.reclaimed = true
	}
	if w.next != nil {
		w.next(e)
	}
}

func (l Ledger) folder() string { return filepath.Join(l.Dir, "ledger") }

// Path returns the path of the file that an event has, or would have.
func (l Ledger) Path(sequence int64) string { return l.path(l.name(sequence)) }

func (l Ledger) path(name string) string { return l.folder() + string(filepath.Separator) + name }

// make checks l, and makes its folder and Dir. What is above may be mistyped: it must be
// there.
func (l Ledger) make() error {
	if err := l.check(); err != nil {
		return err
	}
	err := l.mkdir(l.folder())
	if errors.Is(err, fs.ErrNotExist) {
		if err = l.mkdir(l.Dir); err == nil {
			err = l.mkdir(l.folder())
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("ledger: the folder that %s is to be made in is not there; make it first, or mend the path: %w", l.Dir, fs.ErrNotExist)
	case err != nil:
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// mkdir makes a folder that may be there already.
func (l Ledger) mkdir(path string) error {
	switch err := os.Mkdir(path, 0o777); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return l.syncFolder(filepath.Dir(path))
}

// syncFolder makes the names in a folder outlive a crash of the machine.
func (l Ledger) syncFolder(path string) error {
	if l.NoSync {
		return nil
	}
	if l.synced != nil {
		l.synced(path)
	}
	return platform.SyncFolder(path)
}

func (l Ledger) check() error {
	bad := func(what string) error { return fmt.Errorf("ledger: %w: %s", lock.ErrInvalidName, what) }
	prefix := l.prefix()
	switch {
	case l.Dir == "":
		return bad("the folder of the ledger is not named")
	case strings.HasPrefix(prefix, "."), strings.ContainsAny(prefix, `/\`), len(prefix) > 100,
		strings.ContainsFunc(prefix, unicode.IsControl), !utf8.ValidString(prefix):
		return bad(fmt.Sprintf("prefix %q can't begin the names of files", prefix))
	}
	return nil
}

func (l Ledger) prefix() string {
	switch l.Prefix {
	case "":
		return DefaultPrefix
	case NoPrefix:
		return ""
	}
	return l.Prefix
}

// timeout is how long to wait for the lock, as File.AcquireWithin has it.
func (l Ledger) timeout() time.Duration { return cmp.Or(l.Timeout, DefaultTimeout) }

func (l Ledger) agent() string {
	if l.AgentID != "" {
		return l.AgentID
	}
	return fmt.Sprintf("%s-%d", platform.ThisHost().Name, os.Getpid())
}

// file is the ledger's lock, with the fields of af's.
func (l Ledger) file(o func(lock.Event)) lock.File {
	return lock.File{
		Path:       l.path(lockName),
		Cmd:        "ledger",
		StaleAfter: -1, // not by age: it would be a guess
		Observe:    o,
		Format: &lock.Format{Fields: func(c evidence.Claim) map[string]string {
			return map[string]string{"agent_id": l.agent(), "acquired_at": c.CreatedAt.Format(time.RFC3339Nano)}
		}},
	}
}

// explain adds what another program says of itself in the lock file.
func (l Ledger) explain(err error, path string) error {
	var locked *lock.LockedError
	if !errors.As(err, &locked) {
		return err
	}
	data, rerr := platform.ReadRegular(path, 64<<10)
	var claim struct {
		AgentID    string    `json:"agent_id"`
		AcquiredAt time.Time `json:"acquired_at"`
	}
	if rerr != nil || json.Unmarshal(data, &claim) != nil || claim.AgentID == "" {
		return err
	}
	return fmt.Errorf("ledger: agent %q is appending since %s: %w",
		claim.AgentID, claim.AcquiredAt.Format(time.RFC3339), err)
}

// checkEvents refuses what can't be an event, before anything is touched.
func (l Ledger) checkEvents(events [][]byte) error {
	for i, e := range events {
		if what := l.wrong(e); what != "" {
			return fmt.Errorf("ledger: event %d of %d %s: %w", i+1, len(events), what, ErrInvalidEvent)
		}
	}
	return nil
}

// wrong says why an event can't be one; "" if it can.
func (l Ledger) wrong(event []byte) string {
	switch {
	case len(event) == 0:
		return "is empty"
	case len(event) > MaxEvent:
		return fmt.Sprintf("has more than %d bytes", MaxEvent)
	case !json.Valid(event):
		return "is not JSON, or truncated"
	}
	return ""
}

func (l Ledger) name(sequence int64) string {
	return fmt.Sprintf("%s%06d.json", l.prefix(), sequence)
}

// sequenceOf is the inverse of name; 0 for a name that is no event's.
func (l Ledger) sequenceOf(name string) int64 {
	number, ok := strings.CutPrefix(name, l.prefix())
	number, ok2 := strings.CutSuffix(number, ".json")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || !ok2 || err != nil || n <= 0 || n > MaxSequence || l.name(n) != name {
		return 0
	}
	return n
}

// exists reports whether there is an event, or anything, under a number.
func (l Ledger) exists(sequence int64) (bool, error) {
	if sequence > MaxSequence {
		return false, nil
	}
	_, err := os.Lstat(l.path(l.name(sequence)))
	if err == nil {
		return true, nil
	} else if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, fmt.Errorf("ledger: %w", err)
}
