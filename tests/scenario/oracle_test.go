package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
)

// oracle watches a process of the application from outside. It writes down what it
// sees, a line at a time, in one file of all processes, whose order is so that of time;
// and who is at an agent leaves a marker of their own there.
//
// A process that is killed has written nothing more once its locks are free.
type oracle struct {
	process string
	dir     string
	file    *os.File
	count   atomic.Int64
}

// line is what was seen. By is the process, and, for "enter", "leave" and "clash",
// which time it was.
type line struct {
	What, Subject, By string
	// Other is of a "clash": whose marker was found.
	Other string `json:",omitempty"`
}

func newOracle(dir, process string) (*oracle, error) {
	file, err := os.OpenFile(tracePath(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	return &oracle{process: process, dir: dir, file: file}, err
}

func tracePath(dir string) string { return filepath.Join(dir, "trace") }

func (o *oracle) write(l line) {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = o.file.Write(append(data, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

func (o *oracle) saw(what, subject string) {
	o.write(line{What: what, Subject: subject, By: o.process})
}

// enter says that somebody begins to change something that is nobody else's now.
func (o *oracle) enter(subject string) (leave func()) {
	by := fmt.Sprint(o.process, "#", o.count.Add(1))
	marker := filepath.Join(o.dir, "at-"+subject)
	mine := marker + "-" + by
	orPanic(os.WriteFile(mine, []byte(by), 0o666))
	if err := os.Link(mine, marker); errors.Is(err, fs.ErrExist) {
		other, err := os.ReadFile(marker)
		if err != nil {
			other = []byte("somebody who has just left") // there are others, so
		}
		o.write(line{"clash", subject, by, string(other)})
		orPanic(os.Rename(mine, marker))
	} else {
		orPanic(err)
		orPanic(os.Remove(mine))
	}
	o.write(line{What: "enter", Subject: subject, By: by})
	runtime.Gosched()
	return func() {
		o.write(line{What: "leave", Subject: subject, By: by})
		_ = os.Remove(marker) // gone after a clash
	}
}

func orPanic(err error) {
	if err != nil {
		panic(err)
	}
}

// trace is what all oracles saw.
type trace []line

func readTrace(dir string) (tr trace, err error) {
	data, err := os.ReadFile(tracePath(dir))
	for text := range strings.Lines(string(data)) {
		var l line
		err = errors.Join(err, json.Unmarshal([]byte(text), &l))
		tr = append(tr, l)
	}
	return tr, err
}

// count returns how often something was seen, of a subject, in processes but without.
func (tr trace) count(what, subject, without string) (n int) {
	for _, l := range tr {
		if l.What == what && l.Subject == subject && l.By != without {
			n++
		}
	}
	return n
}

// lastOf returns where the last line by somebody is.
func (tr trace) lastOf(by string) int {
	for i := len(tr) - 1; i >= 0; i-- {
		if tr[i].By == by {
			return i
		}
	}
	return -1
}

// overlaps are the times when two were at one subject: by the markers that were found,
// and by the order of those who came and went. Who belongs to the killed process need
// not have left, but has done nothing after the next one came.
func (tr trace) overlaps(killed string) (byMarker, byOrder []string) {
	dead := func(by string, since int) bool {
		return strings.HasPrefix(by, killed+"#") && tr.lastOf(by) < since
	}
	inside := map[string]string{}
	for i, l := range tr {
		switch l.What {
		case "clash":
			if !dead(l.Other, i) {
				byMarker = append(byMarker, fmt.Sprintf("%s came to %s, where %s was", l.By, l.Subject, l.Other))
			}
		case "enter":
			if other := inside[l.Subject]; other != "" && !dead(other, i) {
				byOrder = append(byOrder, fmt.Sprintf("%s came to %s, where %s was", l.By, l.Subject, other))
			}
			inside[l.Subject] = l.By
		case "leave":
			if inside[l.Subject] == l.By {
				inside[l.Subject] = ""
			}
		}
	}
	return byMarker, byOrder
}
