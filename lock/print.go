package lock

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/plainjson"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// String says in one line, which is safe to show, what the lock is, who has it, since when, and
// how that is known: what a LockedError says, without advice.
func (s Status) String() string {
	text := s.line(time.Time{})
	if s.Last != nil {
		text += "; last: " + s.Last.String()
	}
	if n := len(s.Waiters); n > 0 {
		text += fmt.Sprintf("; %d waiting", n)
	}
	return plainjson.Text(text)
}

// LogValue gives the lock as a group: path, state and evidence, and as far as they are known
// holder and gone (groups), pids, shared, note, fence, last (a group), and how many are waiting.
func (s Status) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("path", s.Path), slog.String("state", string(s.State)), slog.String("evidence", string(s.Evidence))}
	add := func(is bool, a slog.Attr) {
		if is {
			attrs = append(attrs, a)
		}
	}
	var pids []int
	for _, p := range s.Processes {
		pids = append(pids, p.PID)
	}
	add(s.Info != nil, slog.Any("holder", s.Info))
	add(s.Gone != nil, slog.Any("gone", s.Gone))
	add(len(pids) > 0, slog.Any("pids", pids))
	add(s.Shared, slog.Bool("shared", true))
	add(s.Note != "", slog.String("note", s.Note))
	add(s.Fence != 0, slog.Int64("fence", s.Fence))
	add(s.Last != nil, slog.Any("last", s.Last))
	add(len(s.Waiters) > 0, slog.Int("waiting", len(s.Waiters)))
	return slog.GroupValue(attrs...)
}

// String says in one line, which is safe to show, who it was, how it ended, and how that is
// known.
func (p Predecessor) String() string {
	text := fmt.Sprintf("%s: %s", p.Info, p.How)
	if !p.Ended.IsZero() {
		text += " " + p.Ended.Format(time.RFC3339)
	}
	if p.Evidence != "" {
		text += fmt.Sprintf(" (%s)", p.Evidence)
	}
	if p.Note != "" {
		text += fmt.Sprintf(", at %q", p.Note)
	}
	return plainjson.Text(text)
}

// LogValue gives the holder before as a group: holder (a group) and how, and as far as they are
// known ended, evidence and note.
func (p Predecessor) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Any("holder", p.Info), slog.String("how", string(p.How))}
	if !p.Ended.IsZero() {
		attrs = append(attrs, slog.Time("ended", p.Ended))
	}
	if p.Evidence != "" {
		attrs = append(attrs, slog.String("evidence", string(p.Evidence)))
	}
	if p.Note != "" {
		attrs = append(attrs, slog.String("note", p.Note))
	}
	return slog.GroupValue(attrs...)
}

// line says what the lock is, who has it, and how that is known. now is the time by which ages
// are counted; zero leaves them out.
func (s *Status) line(now time.Time) string {
	var b strings.Builder
	b.WriteString(s.Path)
	b.WriteString(s.isHeld())
	if s.Gone != nil {
		b.WriteString(": ")
		b.WriteString(s.heirs())
	} else if who := s.who(now); who != "" {
		b.WriteString(" by ")
		b.WriteString(who)
	}
	if s.Note != "" {
		fmt.Fprintf(&b, ", at %q", s.Note)
	}
	fmt.Fprintf(&b, ": %s", s.Evidence)
	return b.String()
}

// isHeld says how certain it is that somebody has the lock.
func (s *Status) isHeld() string {
	switch s.State {
	case evidence.Free:
		return " is free"
	case evidence.Dead:
		return " was held"
	case evidence.Unknown:
		return " may be held"
	}
	return " is held"
}

// who names the holders; "" if they are not known.
func (s *Status) who(now time.Time) string {
	byList := ", by the kernel's list"
	if s.Path == s.Key.String() {
		byList = "" // the engine tells
	}
	switch {
	case s.Shared && len(s.Processes) > 1:
		return fmt.Sprintf("%d readers%s: %s", len(s.Processes), byList, pidsOf(s.Processes))
	case s.Info != nil && s.Shared:
		return "readers, one of them " + s.Info.Describe(now)
	case s.Info != nil:
		return s.Info.Describe(now)
	case len(s.Processes) > 0 && s.Shared:
		return "a reader" + byList + ": " + pidsOf(s.Processes)
	case len(s.Processes) > 0:
		return pidsOf(s.Processes) + byList
	case s.Shared:
		return "readers"
	}
	return ""
}

// heirs says whose processes have the lock, and which.
func (s *Status) heirs() string {
	who := fmt.Sprintf("pid %d", s.Gone.PID)
	if s.Gone.Cmd != "" {
		who += fmt.Sprintf(", %q", s.Gone.Cmd)
	}
	if len(s.Processes) == 0 {
		return fmt.Sprintf("holder (%s) has gone; processes that it started still have the lock, and can't be seen from here", who)
	}
	if len(s.Processes) == 1 {
		return fmt.Sprintf("holder (%s) has gone; its process %s still has the lock", who, named(s.Processes, ""))
	}
	return fmt.Sprintf("holder (%s) has gone; its processes %s still have the lock", who, named(s.Processes, ""))
}
