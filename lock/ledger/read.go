package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/platform"
)

// Event is one event, as it lies on disk.
type Event struct {
	Sequence int64
	Data     []byte // JSON
}

// Sequence returns the number of the last event, 0 if there is none. It takes no
// lock; somebody may append at any moment.
func (l Ledger) Sequence() (int64, error) {
	if err := l.check(); err != nil {
		return 0, err
	}
	head, _, err := l.head()
	return head, err
}

// Read returns one event. It takes no lock. The error matches fs.ErrNotExist when there is
// no such event, and ErrDamaged when what is there can't be one.
func (l Ledger) Read(sequence int64) (Event, error) {
	if err := l.check(); err != nil {
		return Event{}, err
	}
	path := l.path(l.name(sequence))
	if sequence < 1 { // whatever lies at that name
		return Event{}, fmt.Errorf("ledger: %w", &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist})
	}
	data, err := platform.ReadRegular(path, MaxEvent)
	switch {
	case errors.Is(err, platform.ErrTooLarge):
		return Event{}, damaged(path, fmt.Sprintf("has more than %d bytes", MaxEvent))
	case errors.Is(err, platform.ErrNotRegular):
		return Event{}, damaged(path, "is not a regular file")
	case err != nil:
		return Event{}, fmt.Errorf("ledger: %w", err)
	}
	if what := l.wrong(data); what != "" {
		return Event{}, damaged(path, what)
	}
	return Event{Sequence: sequence, Data: data}, nil
}

// Events yields the events behind number after, in order, up to the last one at the time
// when it gets there. It takes no lock.
//
// What is wrong comes as an error that matches ErrDamaged and names the file, with the
// number of the event if it is one. A caller that goes on gets what comes behind it. For
// several missing events in a row, one error names the first, and says how many. Any other
// error is the last that comes. With after = 0 the whole folder is looked at first, so that
// files which are none of the ledger's, and gaps, are found. The error about a file that
// does no harm matches ErrAlien, too.
func (l Ledger) Events(after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		head := after
		if after <= 0 {
			after = 0
			c, err := l.whole()
			if err != nil {
				yield(Event{}, err)
				return
			}
			head = c.head
			for _, name := range c.aliens {
				if !yield(Event{}, l.alien(name)) {
					return
				}
			}
		}
		for n := after + 1; n <= MaxSequence; n++ {
			event, err := l.Read(n)
			event.Sequence = n
			if errors.Is(err, fs.ErrNotExist) {
				var beyond bool
				if beyond, err = l.beyond(n, head); err == nil && !beyond {
					if err := l.anything(); err != nil {
						yield(Event{}, err)
					}
					return
				} else if err == nil {
					n, err = l.skip(n)
				}
			}
			if !yield(event, err) || err != nil && !errors.Is(err, ErrDamaged) {
				return
			}
		}
	}
}

// alien returns the error for a file whose name is no event's.
func (l Ledger) alien(name string) error {
	if l.likeEvent(name) {
		return &fileError{ProblemMisnamed, l.path(name), "is named much like an event, and is none",
			"give it an event's name if it is one, else move it away"}
	}
	return &fileError{ProblemAlien, l.path(name), "is none of the ledger's files", "it does no harm, and may be moved away"}
}

// likeEvent reports whether somebody may have meant a name to be an event's: with another
// number of digits, say, or another prefix. What it says may be wanted then.
func (l Ledger) likeEvent(name string) bool {
	text, ok := strings.CutSuffix(strings.ToLower(name), ".json")
	prefix := strings.ToLower(l.prefix())
	return ok && (strings.TrimRight(text, digits) != text || prefix != "" && strings.HasPrefix(text, prefix))
}

// skip returns the error for event n, which is missing, and the number of the last one that
// is missing with it.
func (l Ledger) skip(n int64) (last int64, err error) {
	c, err := l.list()
	if err != nil {
		return n, err
	}
	i, _ := slices.BinarySearch(c.numbers, n+1)
	if i == len(c.numbers) {
		return MaxSequence - 1, l.gone(n, 1) // what was behind it is gone, too
	}
	return c.numbers[i] - 1, l.gone(n, c.numbers[i]-n)
}

// gone is the error for events from n on that are missing in a row.
func (l Ledger) gone(n, events int64) error {
	what := "missing, though there are events behind it"
	if events > 1 {
		what = fmt.Sprintf("missing, and the %d behind it, though there are events behind them", events-1)
	}
	return &fileError{kind: ProblemMissing, path: l.Path(n), what: what}
}

// whole lists the folder, to read all of it.
func (l Ledger) whole() (c contents, err error) {
	if err = l.check(); err != nil {
		return c, err
	}
	if c, err = l.list(); err != nil {
		return c, err
	}
	return c, l.alone(c)
}

// beyond reports whether event n, which was not there, is missing: there are events behind
// it, and n is still not there. head is the number of an event that is known.
func (l Ledger) beyond(n, head int64) (bool, error) {
	h, _ := l.readHint()
	for _, m := range []int64{max(head, h.Sequence), n + 1, n + 2, n + 3} {
		if m <= n {
			continue
		}
		there, err := l.exists(m)
		if err != nil {
			return false, err
		}
		if there {
			there, err = l.exists(n)
			return !there, err
		}
	}
	return false, nil
}
