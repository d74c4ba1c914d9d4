package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// hint is what .head holds. The holder of the lock writes it, and nobody believes it
// without a look at the events themselves.
type hint struct {
	Sequence int64     `json:"sequence"`
	SweptAt  time.Time `json:"swept_at"`
}

// hintSize is the length of .head, always the same: one write in place replaces it.
const hintSize = 96

// maxHint bounds what is read of .head.
const maxHint = 4 << 10

func (l Ledger) readHint() (h hint, ok bool) {
	data, err := platform.ReadRegular(l.path(".head"), maxHint)
	if err != nil {
		return hint{}, false
	}
	return parseHint(data)
}

func parseHint(data []byte) (h hint, ok bool) {
	if json.Unmarshal(data, &h) != nil || h.Sequence < 0 || h.Sequence > MaxSequence {
		return hint{}, false
	}
	return h, true
}

// writeHint keeps quiet when it fails: without a hint the folder is listed.
func (l Ledger) writeHint(h hint) {
	data, err := json.Marshal(h)
	if err != nil {
		return
	}
	data = append(data, bytes.Repeat([]byte{' '}, max(0, hintSize-len(data)))...)
	f, err := platform.Open(l.path(".head"), os.O_RDWR)
	if err == nil && !isHint(f) {
		// It may be somebody's file, or another name of one, so it is not written to: a new one
		// takes its place.
		if errors.Join(f.Close(), platform.Remove(l.path(".head"))) != nil {
			return
		}
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		f, err = platform.Create(l.path(".head"), false)
	}
	if err != nil {
		return
	}
	defer f.Close()
	_ = f.WriteAt(data, 0)
}

// isHint reports whether a file is a hint as writeHint leaves it, under this name alone.
func isHint(f *platform.File) bool {
	info, err := f.Stat()
	if err != nil || info.Links != 1 || info.Size != hintSize {
		return false
	}
	data, err := f.Read(hintSize)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(data, &fields) != nil {
		return false
	}
	_, ok := parseHint(data)
	_, swept := fields["swept_at"]
	_, numbered := fields["sequence"]
	return ok && swept && numbered && len(fields) == 2
}

// head finds the number of the last event. With a hint, the time for that does not grow
// with the number of events: the last holdfast writer left the head there, and events that
// other programs have appended since are found in steps that double. Without a hint, or its
// event, the folder is listed, and must be without gap.
func (l Ledger) head() (head int64, h hint, err error) {
	h, ok := l.readHint()
	if ok && h.Sequence > 0 {
		if ok, err = l.exists(h.Sequence); err != nil {
			return 0, h, err
		}
	}
	if !ok {
		h = hint{}
	} else if head, err = l.last(h.Sequence); head > 0 || err != nil {
		return head, h, err
	}
	c, err := l.list()
	if err != nil {
		return 0, hint{}, err
	}
	if err := l.alone(c); err != nil {
		return 0, hint{}, err
	}
	return c.head, h, l.gap(c)
}

// last finds the last event, given that those up to from exist.
func (l Ledger) last(from int64) (int64, error) {
	absent := from + 1
	for step := int64(1); ; step *= 2 {
		there, err := l.exists(absent)
		if err != nil {
			return 0, err
		} else if !there {
			break
		}
		from, absent = absent, absent+step
	}
	for from+1 < absent {
		middle := from + (absent-from)/2
		there, err := l.exists(middle)
		if err != nil {
			return 0, err
		} else if there {
			from = middle
		} else {
			absent = middle
		}
	}
	return from, nil
}

// contents are what a ledger's folder holds.
type contents struct {
	head    int64   // the largest number
	numbers []int64 // all of them, in order
	temps   []string
	aliens  []string
}

// list looks at the whole folder. A ledger whose folder does not exist yet is
// empty.
func (l Ledger) list() (c contents, err error) {
	dir, err := os.Open(l.folder())
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Stat(l.Dir); errors.Is(err, fs.ErrNotExist) {
			return c, fmt.Errorf("ledger: there is no ledger in %s, nor that folder: %w", l.Dir, fs.ErrNotExist)
		}
	}
	if err != nil {
		return c, fmt.Errorf("ledger: %w", err)
	} else if dir == nil {
		return c, nil
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			sequence := l.sequenceOf(name)
			temp, _ := filepath.Match(".event-*.tmp", name)
			switch {
			case sequence > 0:
				c.numbers = append(c.numbers, sequence)
			case temp:
				c.temps = append(c.temps, name)
			case strings.HasPrefix(name, "."), name == lockName,
				strings.HasPrefix(name, lockName+".flock"), strings.HasPrefix(name, lockName+".reclaim"):
			default:
				c.aliens = append(c.aliens, name)
			}
		}
		if err == io.EOF {
			slices.Sort(c.numbers)
			c.numbers = slices.Compact(c.numbers) // a folder that changes may be told in part twice
			if n := len(c.numbers); n > 0 {
				c.head = c.numbers[n-1]
			}
			return c, nil
		} else if err != nil {
			return c, fmt.Errorf("ledger: %w", err)
		}
	}
}

// gap returns an error that names the first missing event, if one is missing. The listing
// of a folder that grows may leave some out, so each is looked for.
func (l Ledger) gap(c contents) error {
	next := int64(1)
	for _, n := range c.numbers {
		for ; next < n; next++ {
			there, err := l.exists(next)
			if err != nil {
				return err
			} else if !there {
				return &fileError{kind: ProblemMissing, path: l.Path(next), what: fmt.Sprintf("missing, though event %d exists", c.head)}
			}
		}
		next = n + 1
	}
	return nil
}
