package monitor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock"
)

// Report is what /api/advisory-locks answers.
type Report struct {
	Locks   []Lock        `json:"locks"`   // by engine, in the order each lists them
	Total   int           `json:"total"`   // how many Locks has
	Engines []EngineState `json:"engines"` // in the order they were given
	At      time.Time     `json:"at"`      // when this was answered
}

// EngineState tells of an engine whether all of its locks are in the report.
type EngineState struct {
	Name string `json:"name"`
	// Error says why some or all are missing; null if none is.
	Error *string `json:"error"`
}

// Lock is one who holds a lock, or waits for it. What is not known is null.
type Lock struct {
	PID             *int    `json:"pid"`
	ApplicationName *string `json:"application_name"` // what the holder says it is doing: LockInfo.Cmd
	// State is what a database says of the session ("active", "idle"), otherwise
	// lock.Entry's.
	State string `json:"state"`
	// QueryStart is when a session's query began, otherwise when the lock was taken.
	QueryStart *time.Time `json:"query_start"`
	Namespace  string     `json:"namespace"` // Key.Space
	EntityID   string     `json:"entity_id"` // Key.Name
	// Mode is "exclusive" or "shared". It is null for who waits for a lock file: the
	// kernel tells of them no more than the pid.
	Mode    *string `json:"mode"`
	Granted bool    `json:"granted"` // false: they wait
	// Duration is the time since QueryStart in seconds, to the millisecond. It is
	// negative when that is in the future, by a clock that was set or another host's.
	Duration  *float64 `json:"duration"`
	Engine    string   `json:"engine"`
	Hostname  *string  `json:"hostname"`
	Evidence  *string  `json:"evidence"`   // why the holder is believed to live, or not
	BlockedBy []int    `json:"blocked_by"` // the pids of who is in the way; never null
}

func describe(engine string, e lock.Entry, now time.Time) Lock {
	l := Lock{
		State:     e.Activity,
		Namespace: e.Key.Space, EntityID: e.Key.Name,
		Mode:    mode(e),
		Granted: e.Granted, Engine: engine,
		Evidence:  known(string(e.Evidence)),
		BlockedBy: append([]int{}, e.BlockedBy...),
	}
	if l.State == "" {
		l.State = string(e.State)
	}
	since := e.QueryStart
	if w := e.Who; w != nil {
		l.PID, l.ApplicationName, l.Hostname = &w.PID, known(w.Cmd), known(w.Hostname)
		if since.IsZero() {
			since = w.CreatedAt
		}
	}
	since = since.UTC()
	if y := since.Year(); !since.IsZero() && 0 <= y && y <= 9999 { // others are no JSON
		seconds := math.Round(now.Sub(since).Seconds()*1000) / 1000
		l.QueryStart, l.Duration = &since, &seconds
	}
	return l
}

func mode(e lock.Entry) *string {
	switch {
	case e.Who == nil:
		return nil
	case e.Who.Mode != "":
		return &e.Who.Mode
	case !e.Granted && e.Activity == "":
		return nil
	}
	return known("exclusive")
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// encode gives the report as JSON in which every rune that does not print is escaped.
// What lock files say is written by whoever can write them, and may end up in a
// terminal.
func (r Report) encode() ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Grow(len(data) + 1)
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		if c < utf8.RuneSelf && c != 0x7f || unicode.IsPrint(c) {
			out.Write(data[:size]) // package json has escaped the ASCII controls but DEL
		} else {
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
		data = data[size:]
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
