package lock

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/plainjson"
)

// EventKind says what happened.
type EventKind string

const (
	// EventWaiting: a wait has begun, and, a second later, again: it lasts. Duration is 0 the
	// first time, and then how long it has lasted.
	EventWaiting   EventKind = "waiting"
	EventAcquired  EventKind = "acquired"  // Duration is how long it took
	EventReclaimed EventKind = "reclaimed" // taken over from a dead holder
	EventReleased  EventKind = "released"  // Duration is how long it was held
	EventLost      EventKind = "lost"      // found to be no longer ours, after Duration
)

// Event is one thing that happened to one lock.
//
// A function that is told of events (File.Observe) is called by the goroutine that acquires or
// releases; for EventLost, by the one that found out; for a wait that lasts, by another one,
// for which Acquire waits. Several may call it at once. It must not block, and must not use the
// lock.
type Event struct {
	Kind EventKind
	// Status has the Path of the lock, and the holder in the way of an EventWaiting, or the dead
	// one of an EventReclaimed, as far as it is known.
	Status
	Cmd      string // of the File
	Duration time.Duration
}

// String says in one line, which is safe to show, what happened to which lock, and which holder
// was in the way, or had died.
func (e Event) String() string {
	text := string(e.Kind) + ": " + e.Path
	if e.Info != nil {
		text += ": " + e.Info.Describe(time.Time{})
	}
	if e.Evidence != "" {
		text += ": " + string(e.Evidence)
	}
	return plainjson.Text(text)
}

// LogValue gives the event as a group: path, and as far as they are known cmd, duration, holder
// and gone (groups), and evidence.
func (e Event) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("path", e.Path)}
	if e.Cmd != "" {
		attrs = append(attrs, slog.String("cmd", e.Cmd))
	}
	if e.Duration != 0 {
		attrs = append(attrs, slog.Duration("duration", e.Duration))
	}
	if e.Info != nil {
		attrs = append(attrs, slog.Any("holder", e.Info))
	}
	if e.Gone != nil {
		attrs = append(attrs, slog.Any("gone", e.Gone))
	}
	if e.Evidence != "" {
		attrs = append(attrs, slog.String("evidence", string(e.Evidence)))
	}
	return slog.GroupValue(attrs...)
}

func (p *place) observe(e Event) {
	if p.file.Observe == nil {
		return
	}
	e.Path, e.Cmd = p.file.Path, p.file.Cmd
	p.file.Observe(e)
}

// LogTo returns a function for File.Observe that writes to a logger: EventReclaimed and
// EventLost as warnings, the others for debugging.
func LogTo(l *slog.Logger) func(Event) {
	return func(e Event) {
		level := slog.LevelDebug
		if e.Kind == EventReclaimed || e.Kind == EventLost {
			level = slog.LevelWarn
		}
		l.LogAttrs(context.Background(), level, "lock "+string(e.Kind), e.LogValue().Group()...)
	}
}
