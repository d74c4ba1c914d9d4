package monitor

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// Report is what /api/advisory-locks answers.
type Report struct {
	Locks   []Lock        `json:"locks"`   // by engine, in the order each lists them
	Total   int           `json:"total"`   // how many Locks has
	Engines []EngineState `json:"engines"` // in the order they were given
	Host    string        `json:"host"`    // the machine that answers
	At      time.Time     `json:"at"`      // when it did
}

// EngineState tells of an engine whether all of its locks are in the report.
type EngineState struct {
	Name string `json:"name"`
	// Error says why some or all are missing; null if none is.
	Error *string `json:"error"`
}

// Lock is one holder or waiter. What is not known is null.
//
// It says of the lock what "holdfast status -json" and "holdfast list -json" say, by the
// same names: path (empty for a lock without a file), state, evidence, and holder, the
// claim. holder is left out for waiters, and if there is no claim. If a process has the
// lock from a holder who has gone, gone is that holder's claim. note is what the holder last
// said of its work, at noted_at. fence is the last that was given to one. Where a database says
// what the session does ("active", "idle"), that is the state. path and holder.nonce are
// what it takes to break the lock of a holder who is gone: lock.File.BreakForce.
//
// pid, application_name, state, query_start, namespace, entity_id, mode, granted and
// duration are those of the agent service, whose page can so show them: see FORMATS.md.
type Lock struct {
	lock.Status
	PID             *int    `json:"pid"`              // of the holder or waiter
	ApplicationName *string `json:"application_name"` // what they say they are doing: LockInfo.Cmd
	// QueryStart is when a session's query began, otherwise when the lock was taken.
	QueryStart *time.Time `json:"query_start"`
	Namespace  string     `json:"namespace"` // Key.Space
	EntityID   string     `json:"entity_id"` // Key.Name
	// Mode is "exclusive" or "shared". It is null for a waiter at a lock file, of whom the
	// kernel tells no more than the pid.
	Mode    *string `json:"mode"`
	Granted bool    `json:"granted"` // false: a waiter
	// Duration is the time since QueryStart in seconds, to the millisecond. It is negative
	// when QueryStart is in the future, by a clock that was set or another host's.
	Duration  *float64 `json:"duration"`
	Engine    string   `json:"engine"`
	Hostname  *string  `json:"hostname"`   // of PID
	BlockedBy []int    `json:"blocked_by"` // the pids of those in the way; never null
	Next      []string `json:"next"`       // what a person can do about it, in lines
}

func describe(engine Engine, e lock.Entry, now time.Time) Lock {
	l := Lock{
		Status:    lock.Status{Path: e.Path, State: e.State, Evidence: e.Evidence, Gone: e.Gone, Note: e.Note, NotedAt: e.NotedAt, Fence: e.Fence},
		Namespace: e.Key.Space, EntityID: e.Key.Name,
		Mode:    mode(e),
		Granted: e.Granted, Engine: engine.Name,
		BlockedBy: append([]int{}, e.BlockedBy...),
	}
	since := e.QueryStart
	if w := e.Info; w != nil {
		l.PID, l.ApplicationName, l.Hostname = &w.PID, known(w.Cmd), known(w.Hostname)
		if since.IsZero() {
			since = w.CreatedAt
		}
		l.Shared = w.Mode == "shared"
		if _, err := w.CreatedAt.MarshalText(); err == nil && e.Granted && !w.CreatedAt.IsZero() { // a claim
			l.Info = w
		}
		if e.Gone != nil {
			l.Processes = []lock.Process{{PID: w.PID, Cmd: w.Cmd}}
		}
	}
	switch {
	case !e.Granted:
		l.Next = []string{"nothing: it is let in when those before it have let go"}
	case engine.Next != nil:
		l.Next = engine.Next(l.Status)
	}
	if e.Activity != "" {
		l.State = lock.State(e.Activity)
	}
	since = since.UTC()
	if y := since.Year(); !since.IsZero() && 0 <= y && y <= 9999 { // no other year has a form in JSON
		seconds := math.Round(now.Sub(since).Seconds()*1000) / 1000
		l.QueryStart, l.Duration = &since, &seconds
	}
	return l
}

func mode(e lock.Entry) *string {
	switch {
	case e.Info == nil:
		return nil
	case e.Info.Mode != "":
		return &e.Info.Mode
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
