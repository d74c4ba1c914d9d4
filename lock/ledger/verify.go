package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/holdfast-go/holdfast/lock/evidence"
)

// ProblemKind says what sort of problem a Problem is.
type ProblemKind string

// What Verify may find.
const (
	// ProblemMissing is an event that is not there, though there are events behind it, or
	// though a batch has it.
	ProblemMissing ProblemKind = "missing"
	// ProblemDamaged is a file whose contents can't be what they should be.
	ProblemDamaged ProblemKind = "damaged"
	// ProblemUnreadable is an event that could not be read.
	ProblemUnreadable ProblemKind = "unreadable"
	// ProblemMisnamed is a file that somebody may have meant as an event.
	ProblemMisnamed ProblemKind = "misnamed"
	// ProblemAlien is a file that is certainly none of the ledger's. It does no harm.
	ProblemAlien ProblemKind = "alien"
)

// Problem is a file, what is wrong with it, and what to do about it.
type Problem struct {
	Kind     ProblemKind `json:"kind"`
	Path     string      `json:"path"`
	Sequence int64       `json:"sequence,omitempty"` // of the event, if it is one
	Missing  int64       `json:"missing,omitempty"`  // how many events are, in a row
	What     string      `json:"what"`
	Next     string      `json:"next"`
}

// Harmless reports whether nothing needs to be done.
func (p Problem) Harmless() bool { return p.Kind == ProblemAlien }

// Verify reads all events that there are when it begins, and yields what is wrong with the
// ledger: nothing, if it is whole. It takes no lock, and changes nothing. An error is the
// last that comes: the ledger could not be looked through.
//
// look, which may be nil, is called with each event that can be one, in order. An error of its
// is reported as that event's damage.
func (l Ledger) Verify(look func(Event) error) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		c, err := l.whole()
		if err != nil {
			yield(Problem{}, err)
			return
		}
		for _, name := range c.aliens {
			if !yield(problem(0, l.alien(name)), nil) {
				return
			}
		}
		for n, missing := range l.inOrder(c.numbers) {
			var p Problem
			if missing > 0 {
				p = problem(n, l.gone(n, missing))
				p.Missing = missing
			} else if err := l.verify(n, look); err != nil {
				p = problem(n, err)
			}
			if p.Kind != "" && !yield(p, nil) {
				return
			}
		}
		if err := l.verifyBatch(); err != nil {
			yield(problem(0, err), nil)
		}
	}
}

// inOrder yields the numbers up to the last, each with 0, or with how many events are missing
// from it on. The listing of a folder that grows may leave some out, so they are looked for.
func (l Ledger) inOrder(numbers []int64) iter.Seq2[int64, int64] {
	return func(yield func(n, missing int64) bool) {
		next := int64(1)
		for _, n := range numbers {
			for ; next < n; next++ {
				if there, err := l.exists(next); err == nil && !there {
					if !yield(next, n-next) {
						return
					}
					break
				}
				if !yield(next, 0) {
					return
				}
			}
			if !yield(n, 0) {
				return
			}
			next = n + 1
		}
	}
}

func (l Ledger) verify(n int64, look func(Event) error) error {
	event, err := l.Read(n)
	if errors.Is(err, fs.ErrNotExist) {
		return l.gone(n, 1) // since it was listed
	} else if err != nil {
		return err
	}
	if look != nil {
		if err := look(event); err != nil {
			return damaged(l.Path(n), err.Error())
		}
	}
	return nil
}

// verifyBatch returns why a batch that a dead writer has left can't be finished. While
// somebody appends there is nothing to be said of it.
func (l Ledger) verifyBatch() (err error) {
	for range 2 { // a writer may have come, and have gone, in between
		s, lerr := l.file(nil).Inspect(context.Background())
		if lerr == nil && s.State != evidence.Free && s.State != evidence.Dead {
			return nil
		}
		if _, _, err = l.readBatch(); err == nil {
			return nil
		}
	}
	return err
}

// problem makes a Problem of an error.
func problem(n int64, err error) Problem {
	var file *fileError
	if !errors.As(err, &file) {
		p := Problem{Kind: ProblemUnreadable, Sequence: n, What: err.Error(), Next: "verify it again as somebody who may read it"}
		var path *fs.PathError
		if errors.As(err, &path) {
			p.Path, p.What = path.Path, fmt.Sprintf("can't be read: %v", path.Err)
		}
		return p
	}
	p := Problem{Kind: file.kind, Path: file.path, Sequence: n, What: file.what, Next: file.next}
	if p.Next == "" {
		p.Next = "put it back from a copy; without one, write null into it: that closes the gap, and gives up what it said"
	}
	return p
}
