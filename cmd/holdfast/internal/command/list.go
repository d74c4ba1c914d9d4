package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/spf13/cobra"
)

// listCommand tells of every lock below a folder, or in a database.
func (a *app) listCommand(parent *cobra.Command) {
	var asJSON, waiting *bool
	var e *engines
	c := a.command(parent, "list", func(_ *cobra.Command, args []string) (int, error) {
		all, leave, err := toList(e, args)
		if err != nil {
			return 0, err
		}
		defer leave()
		show, finish := a.table(*waiting)
		if *asJSON {
			show, finish = func(s lock.Status) error { return writeJSON(a.stdout, s) }, func(int) error { return nil }
		}
		// One lock that can't be read must not hide the others.
		failed := 0
		for status, err := range all {
			if err != nil {
				a.fail(err)
				failed++
			} else if err := show(status); err != nil {
				return 0, err
			}
		}
		return min(failed, exitError), finish(failed)
	})
	waiting = c.Flags().Bool("waiting", false, "also the waiters of each, in their order")
	asJSON = jsonFlag(c)
	e = engineFlags(c)
}

// toList returns the locks that "holdfast list" is to tell of, and what to call when that is done.
func toList(e *engines, args []string) (all iter.Seq2[lock.Status, error], leave func(), err error) {
	if e.inServer() {
		if len(args) > 0 {
			return nil, nil, misused("of a database there is no DIR: all its locks are listed")
		}
		d, err := e.connect("holdfast list")
		if err != nil {
			return nil, nil, err
		}
		return d.List(context.Background()), d.Close, nil
	}
	dir, err := oneOf(args, "DIR", ".")
	if err == nil {
		dir, err = folder(dir)
	}
	if err != nil {
		return nil, nil, err
	}
	return asWholes(lock.List(context.Background(), dir)), func() {}, nil
}

// folder returns the path of a folder that is there. It follows a symbolic link to one, as
// the caller named it; links below are left alone.
func folder(dir string) (string, error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no folder %s: %w", dir, fs.ErrNotExist)
	} else if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", &fs.PathError{Op: "open", Path: dir, Err: errors.New("not a folder")}
	}
	return filepath.EvalSymlinks(dir)
}

// maxLabel is how much of a holder's label a table shows.
const maxLabel = 40

// table aligns what it is shown, so nothing can be seen before the end. With waiting, a
// lock's waiters follow it.
func (a *app) table(waiting bool) (show func(lock.Status) error, finish func(failed int) error) {
	counts := map[evidence.State]int{}
	total, waiters := 0, 0
	now := time.Now() // one for all, or equal ages would differ
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	show = func(s lock.Status) error {
		if total == 0 {
			fmt.Fprintln(w, "STATE\tPID\tHOST\tAGE\tLABEL\tEVIDENCE\tPATH")
		}
		total++
		counts[s.State]++
		pid, host, age, label := holderCells(s, now)
		evidence := visible(string(s.Evidence))
		if s.Gone != nil {
			evidence += fmt.Sprintf("; its holder, pid %d, has gone", s.Gone.PID)
		}
		if s.Note != "" {
			evidence += fmt.Sprintf("; at \"%s\"", cell(s.Note))
		}
		if s.Info != nil && s.Info.OwnerPID != 0 {
			evidence += fmt.Sprintf("; session of pid %d", s.Info.OwnerPID)
		}
		_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.State, pid, host, age, label, evidence, visible(s.Path))
		if !waiting {
			return err
		}
		for _, p := range s.Waiters {
			waiters++
			pid, age := "-", "-"
			if p.PID > 0 {
				pid = strconv.Itoa(p.PID)
			}
			if !p.Since.IsZero() {
				age = ago(now.Sub(p.Since))
			}
			_, err = fmt.Fprintf(w, "waiting\t%s\t-\t%s\t%s\t-\t%s\n", pid, age, cell(p.Cmd), visible(s.Path))
		}
		return err
	}
	finish = func(failed int) error {
		noun := map[bool]string{true: "lock", false: "locks"}[total == 1]
		fmt.Fprintf(w, "%d %s: %d held, %d free, %d dead, %d unknown", total, noun,
			counts[evidence.Held], counts[evidence.Free], counts[evidence.Dead], counts[evidence.Unknown])
		if waiting {
			fmt.Fprintf(w, "; %d waiting", waiters)
		}
		fmt.Fprintln(w, notRead(failed))
		return w.Flush()
	}
	return show, finish
}

// holderCells are what a table says of the holder.
func holderCells(s lock.Status, now time.Time) (pid, host, age, label string) {
	pid, host, age, label = "-", "-", "-", "-"
	if h := s.Info; h != nil {
		pid, age = strconv.Itoa(h.PID), ago(now.Sub(h.CreatedAt))
		host, label = cell(h.Hostname), cell(h.Cmd)
	} else if s.Gone != nil {
		age, host = ago(now.Sub(s.Gone.CreatedAt)), cell(s.Gone.Hostname)
	}
	if s.Info == nil && len(s.Processes) > 0 {
		pid, label = strconv.Itoa(s.Processes[0].PID), cell(s.Processes[0].Cmd)
	}
	if more := len(s.Processes) - 1; more > 0 {
		pid += fmt.Sprintf(" +%d", more)
	}
	return pid, host, age, label
}

// cell makes a text from a lock file one short cell of a table. A tab or a line break would
// start another cell, and comes as an escape.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return visible(shorten(s, maxLabel))
}
