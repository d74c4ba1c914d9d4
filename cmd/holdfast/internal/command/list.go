package command

import (
	"context"
	"errors"
	"flag"
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
)

// list tells of every lock below a folder.
func (a *app) list(args []string) int {
	flags := newFlags("list")
	asJSON := flags.Bool("json", false, "")
	waiting := flags.Bool("waiting", false, "")
	conn := a.databaseFlag(flags)
	if code, ok := a.parse(flags, args); !ok {
		return code
	}
	all, leave, code, ok := a.toList(flags, *conn)
	if !ok {
		return code
	}
	defer leave()
	show, finish := a.table(*waiting)
	if *asJSON {
		show, finish = a.jsonLines()
	}
	// One lock that can't be read must not hide the others.
	failed := 0
	for status, err := range all {
		if err != nil {
			a.fail(err)
			failed++
		} else if err := show(status); err != nil {
			return a.fail(err)
		}
	}
	if err := finish(failed); err != nil {
		return a.fail(err)
	}
	if failed > 0 {
		return exitError
	}
	return exitOK
}

// toList returns the locks that "holdfast list" is to tell of, below a folder or in a
// database, and what to call when that is done.
func (a *app) toList(flags *flag.FlagSet, conn *string) (all iter.Seq2[lock.Status, error], leave func(), code int, ok bool) {
	if conn != nil {
		if flags.NArg() > 0 {
			return nil, nil, a.misuse("list", "with -pg there is no DIR: all locks of the database are listed"), false
		}
		d, code, ok := a.database("list", *conn, "holdfast list")
		if !ok {
			return nil, nil, code, false
		}
		return d.List(context.Background()), d.Close, exitOK, true
	}
	dir, code, ok := a.one(flags, "DIR")
	if !ok {
		return nil, nil, code, false
	}
	dir, err := folder(dir)
	if err != nil {
		return nil, nil, a.fail(err), false
	}
	return asWholes(lock.List(context.Background(), dir)), func() {}, exitOK, true
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

// jsonLines writes one object a line, as they come: app.main has put a buffer
// before the output.
func (a *app) jsonLines() (show func(lock.Status) error, finish func(int) error) {
	return func(s lock.Status) error { return writeJSON(a.stdout, s) }, func(int) error { return nil }
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
		if failed > 0 {
			fmt.Fprintf(w, "; %d not read", failed)
		}
		fmt.Fprintln(w)
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
