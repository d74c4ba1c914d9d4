package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/rule"
)

// WithClock returns f with another clock.
func (f File) WithClock(now func() time.Time) File {
	r := f.ruleOf()
	r.Now = now
	return f.withRule(r)
}

// WithPIDAlive returns f with another check on pids, for claims that prove nothing.
func (f File) WithPIDAlive(alive func(int) bool) File {
	r := f.ruleOf()
	r.Amend = func(c *evidence.Said, facts *evidence.Facts) {
		if facts.Origin != evidence.OriginHere || c.Start != 0 || c.PIDFD != 0 {
			return
		}
		facts.Process = evidence.Gone
		if alive(c.PID) {
			facts.Process = evidence.Exists
		}
	}
	return f.withRule(r)
}

func (f File) ruleOf() (r rule.Rule) {
	if f.Format != nil && f.Format.Rule != nil {
		r = *f.Format.Rule
	}
	return r
}

func (f File) withRule(r rule.Rule) File {
	var format Format
	if f.Format != nil {
		format = *f.Format
	}
	format.Rule = &r
	f.Format = &format
	return f
}
