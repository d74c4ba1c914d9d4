package monitor

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
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
// It says of the lock what "holdfast status --json" and "holdfast list --json" say, by the
// same names: path (empty for a lock without a file), state, evidence, and holder, the
// claim. holder is left out for waiters, and if there is no claim. If a process has the
// lock from a holder that has gone, gone is that holder's claim. note is what the holder last
// said of its work, at noted_at. fence is the last that a holder was given. Where a database
// says what the session does ("active", "idle"), that is the state. path and holder.nonce are
// what it takes to break the lock of a holder that has gone: lock.File.BreakForce.
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
	// Mode is "exclusive" or "shared". It is null for a waiter at a lock file: the kernel
	// tells no more than its pid.
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

// describe gives a line for each holder of a lock, and then for each waiter.
func describe(engine Engine, s lock.Status, now time.Time) (all []Lock) {
	line := lock.Status{Key: s.Key, Path: s.Path, State: s.State, Evidence: s.Evidence, Gone: s.Gone, Note: s.Note, NotedAt: s.NotedAt, Fence: s.Fence}
	if s.Path == s.Key.String() {
		line.Path = "" // it has no file
	}
	holders := s.Processes
	if len(holders) == 0 && s.State != evidence.Free {
		holders = []lock.Process{{}} // whoever the claim names
	}
	var blockers []int
	for _, p := range holders {
		who := p.Info
		switch {
		case who != nil:
		case s.Info != nil && (p.PID == 0 || p.PID == s.Info.PID):
			who = s.Info
		case p.PID > 0:
			who = &evidence.Claim{PID: p.PID, Cmd: p.Cmd}
			if s.Shared {
				who.Mode = evidence.ModeShared
			}
		}
		if who != nil && s.State != evidence.Dead {
			blockers = append(blockers, who.PID)
		}
		all = append(all, describeOne(engine, line, true, p, who, now))
	}
	if s.State != evidence.Held {
		s.Evidence = evidence.OthersWait
	}
	for _, p := range s.Waiters {
		who := p.Info
		if who == nil && p.PID > 0 {
			who = &evidence.Claim{PID: p.PID, Cmd: p.Cmd}
		}
		if len(p.BlockedBy) == 0 {
			p.BlockedBy = blockers
		}
		waits := lock.Status{Key: s.Key, Path: line.Path, State: evidence.Held, Evidence: s.Evidence}
		all = append(all, describeOne(engine, waits, false, p, who, now))
	}
	return all
}

// describeOne gives the line of a process that has a lock, or waits for it. who is what is known
// of it; nil if nothing is.
func describeOne(engine Engine, s lock.Status, granted bool, p lock.Process, who *evidence.Claim, now time.Time) Lock {
	l := Lock{
		Status:    s,
		Namespace: s.Key.Space, EntityID: s.Key.Name,
		Granted: granted, Engine: engine.Name,
		BlockedBy: append([]int{}, p.BlockedBy...),
	}
	l.Key = lock.Key{}
	since := p.QueryStart
	if since.IsZero() {
		since = p.Since
	}
	if who != nil {
		l.PID, l.ApplicationName, l.Hostname = &who.PID, known(who.Cmd), known(who.Hostname)
		if since.IsZero() {
			since = who.CreatedAt
		}
		l.Shared = who.Mode == evidence.ModeShared
		switch {
		case who.Mode != "":
			l.Mode = &who.Mode
		case granted || p.Activity != "":
			l.Mode = known("exclusive")
		}
		if _, err := who.CreatedAt.MarshalText(); err == nil && granted && !who.CreatedAt.IsZero() { // a claim
			l.Info = who
		}
		if s.Gone != nil {
			l.Processes = []lock.Process{{PID: who.PID, Cmd: who.Cmd}}
		}
	}
	switch {
	case !granted:
		l.Next = []string{"nothing: it is let in when those before it have let go"}
	case engine.Next != nil:
		l.Next = engine.Next(l.Status)
	}
	if p.Activity != "" {
		l.State = evidence.State(p.Activity)
	}
	since = since.UTC()
	if y := since.Year(); !since.IsZero() && 0 <= y && y <= 9999 { // no other year has a form in JSON
		seconds := math.Round(now.Sub(since).Seconds()*1000) / 1000
		l.QueryStart, l.Duration = &since, &seconds
	}
	return l
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
