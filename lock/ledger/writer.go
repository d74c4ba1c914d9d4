package ledger

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/platform"
)

// sweepEvery is how often to look for abandoned temporary files. That lists the folder, which
// takes about a second for a million events. The files of a dead holdfast writer are looked for
// at once.
const sweepEvery = 24 * time.Hour

// Writer appends to a ledger whose lock is held. Its methods are for the goroutine
// that has it.
type Writer struct {
	ledger Ledger
	head   int64
	swept  time.Time
	over   bool
	// unfinished says that a batch of ours is decided, and must be finished before
	// anything else is appended.
	unfinished bool
}

// open finds the head, finishes what a dead writer had decided, and clears away
// what it had not.
func (l Ledger) open(afterDeath bool) (*Writer, error) {
	head, h, err := l.head()
	if err != nil {
		return nil, err
	}
	w := &Writer{ledger: l, head: head, swept: h.SweptAt}
	if err := w.finishBatch(); err != nil {
		return nil, err
	}
	if since := time.Since(w.swept); afterDeath || since > sweepEvery || since < 0 {
		if err := w.sweep(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// close leaves the hint for the next one.
func (w *Writer) close() {
	w.over = true
	w.ledger.writeHint(hint{Sequence: w.head, SweptAt: w.swept.UTC().Truncate(time.Second)})
}

// Sequence is the number of the last event, 0 if there is none.
func (w *Writer) Sequence() int64 { return w.head }

// AppendIfSequence is Append, if the ledger is at expected. See
// Ledger.AppendIfSequence.
func (w *Writer) AppendIfSequence(expected int64, events ...[]byte) (last int64, err error) {
	if !w.over && w.head != expected {
		return 0, &SequenceError{Folder: w.ledger.folder(), Expected: expected, Actual: w.head}
	}
	return w.Append(events...)
}

// Append appends events, all or none, and returns the number of the last one. See
// Ledger.AppendBatch.
//
// If a program that does not ask for the lock has taken the number, the error is a
// *SequenceError, and nothing is replaced.
func (w *Writer) Append(events ...[]byte) (last int64, err error) {
	if w.over {
		return 0, errors.New("ledger: a Writer was used after its lock was released")
	}
	if err := w.ledger.checkEvents(events); err != nil {
		return 0, err
	}
	if w.unfinished {
		if err := w.finishBatch(); err != nil {
			return 0, err
		}
		w.unfinished = false
	}
	switch len(events) {
	case 0:
		return w.head, nil
	case 1:
		err = w.appendOne(events[0])
	default:
		err = w.appendBatch(events)
	}
	if err != nil {
		return 0, err
	}
	return w.head, nil
}

// soloTemp is the temporary file of a single event. Only one writer at a time has the lock,
// so what is there already is a dead writer's.
const soloTemp = ".event-solo.tmp"

func (w *Writer) appendOne(event []byte) error {
	if err := w.writeTemp(soloTemp, event); err != nil {
		return err
	}
	if err := w.publish(soloTemp); err != nil {
		return errors.Join(err, platform.Remove(w.ledger.path(soloTemp)))
	}
	return w.syncFolder()
}

// batch is what .batch holds.
type batch struct {
	ID     string `json:"id"`
	Events int    `json:"events"`
}

const batchName = ".batch"

func (b batch) temp(i int) string { return fmt.Sprintf(".event-%s-%06d.tmp", b.ID, i+1) }

// appendBatch writes all events, then decides by the one step that creates .batch, then
// publishes them. A writer that finds .batch publishes what is left of it. Without it, the
// temporary files are nothing.
func (w *Writer) appendBatch(events [][]byte) (err error) {
	b := batch{ID: rand.Text(), Events: len(events)}
	written := 0
	defer func() {
		if err == nil || errors.Is(err, ErrUnfinished) {
			return
		}
		for i := range written {
			err = errors.Join(err, platform.Remove(w.ledger.path(b.temp(i))))
		}
	}()
	for i, event := range events {
		if err := w.writeTemp(b.temp(i), event); err != nil {
			return err
		}
		written++
	}
	line, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := w.writeTemp(soloTemp, append(line, '\n')); err != nil {
		return err
	}
	if err := platform.RenameNew(w.ledger.path(soloTemp), w.ledger.path(batchName)); err != nil {
		return errors.Join(fmt.Errorf("ledger: %w", err), platform.Remove(w.ledger.path(soloTemp)))
	}
	// One sync of the folder, at the end, is enough: a filesystem that keeps a journal
	// of its names keeps their order, so that no event outlives a crash of the machine
	// without the decision.
	if err := w.publishBatch(b, 0); err != nil {
		w.unfinished = true
		return fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	return nil
}

// finishBatch publishes what a writer had decided before it died.
func (w *Writer) finishBatch() error {
	b, from, err := w.ledger.readBatch()
	if err != nil || b.Events == 0 {
		return err
	}
	return w.publishBatch(b, from)
}

// readBatch returns the batch that is decided and not finished, and how many of its events
// are published; no batch, if there is none.
func (l Ledger) readBatch() (b batch, published int, err error) {
	path := l.path(batchName)
	data, err := platform.ReadRegular(path, 4<<10)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return batch{}, 0, nil
	case errors.Is(err, platform.ErrNotRegular), errors.Is(err, platform.ErrTooLarge):
		return batch{}, 0, badBatch(path, "is none of the ledger's files")
	case err != nil:
		return batch{}, 0, fmt.Errorf("ledger: %w", err)
	}
	if err := json.Unmarshal(data, &b); err != nil || b.Events < 1 ||
		b.ID == "" || strings.ContainsFunc(b.ID, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		return batch{}, 0, badBatch(path, "does not say which events are to be published")
	}
	// They are published in order, so those that are left are the last ones. If one of
	// them is missing, the others must not be given up without a word.
	from := b.Events
	for ; from > 0; from-- {
		if _, err := os.Lstat(l.path(b.temp(from - 1))); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return batch{}, 0, fmt.Errorf("ledger: %w", err)
		}
	}
	c, err := l.list()
	if err != nil {
		return batch{}, 0, err
	}
	left := 0
	for _, temp := range c.temps {
		if strings.HasPrefix(temp, ".event-"+b.ID+"-") {
			left++
		}
	}
	if left != b.Events-from {
		return batch{}, 0, &fileError{ProblemMissing, l.path(b.temp(from - 1)),
			fmt.Sprintf("missing, though it was decided to publish it (see %s), and %d others are there", batchName, left),
			fmt.Sprintf("put it back, or remove %s to give them all up", batchName)}
	}
	return b, from, nil
}

func badBatch(path, what string) error {
	return &fileError{ProblemDamaged, path, what, "put it back as it was, or remove it to give up what is left of the batch"}
}

// publishBatch renames the events that are still to be published, beginning with one. Each
// is renamed once, so none is there twice, however often this is begun anew.
func (w *Writer) publishBatch(b batch, from int) error {
	for i := from; i < b.Events; i++ {
		if w.isPublished(b.temp(i)) {
			if err := platform.Remove(w.ledger.path(b.temp(i))); err != nil {
				return fmt.Errorf("ledger: %w", err)
			}
			continue
		}
		err := w.publish(b.temp(i))
		for errors.Is(err, ErrSequenceMismatch) {
			// Somebody appended between our predecessor's death and now.
			if w.head, err = w.ledger.last(w.head); err == nil {
				err = w.publish(b.temp(i))
			}
		}
		if err != nil {
			return err
		}
	}
	if err := w.syncFolder(); err != nil {
		return err
	}
	if err := platform.Remove(w.ledger.path(batchName)); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// isPublished reports whether a temporary file is also the last event, under its other
// name. A crash leaves it so where renaming takes two steps.
func (w *Writer) isPublished(temp string) bool {
	t, err := os.Lstat(w.ledger.path(temp))
	if err != nil || w.head == 0 {
		return false
	}
	event, err := os.Lstat(w.ledger.path(w.ledger.name(w.head)))
	return err == nil && os.SameFile(t, event)
}

// publish gives a temporary file the next number. It replaces nothing.
func (w *Writer) publish(temp string) error {
	if w.head == MaxSequence {
		return damaged(w.ledger.path(w.ledger.name(w.head)), "has the greatest number there is, and no event can come behind it")
	}
	err := platform.RenameNew(w.ledger.path(temp), w.ledger.path(w.ledger.name(w.head+1)))
	switch {
	case err == nil:
		w.head++
		return nil
	case errors.Is(err, fs.ErrExist):
		return &SequenceError{Folder: w.ledger.folder(), Expected: w.head, Actual: w.head + 1}
	}
	return fmt.Errorf("ledger: %w", err)
}

// writeTemp writes a file that is not an event yet, so that it outlives a crash
// of the machine.
func (w *Writer) writeTemp(name string, contents []byte) error {
	path := w.ledger.path(name)
	flags := os.O_CREATE | os.O_EXCL | os.O_WRONLY
	f, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		if err = platform.Remove(path); err == nil {
			f, err = os.OpenFile(path, flags, 0o644)
		}
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	_, err = f.Write(contents)
	if err == nil && !w.ledger.NoSync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return errors.Join(fmt.Errorf("ledger: %w", err), platform.Remove(path))
	}
	return nil
}

func (w *Writer) syncFolder() error {
	if err := w.ledger.syncFolder(w.ledger.folder()); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// sweep removes temporary files. Their writers have the lock, so all that are there now are
// dead writers'. What can't be removed (a folder, another user's) harms nobody.
func (w *Writer) sweep() error {
	c, err := w.ledger.list()
	if err != nil {
		return err
	}
	for _, name := range c.temps {
		_ = platform.Remove(w.ledger.path(name))
	}
	w.swept = time.Now()
	return nil
}
