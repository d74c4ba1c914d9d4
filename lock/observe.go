package lock

import (
	"context"
	"log/slog"
	"time"
)

// An Observer is told what becomes of locks, for logs and metrics. The goroutine that
// acquires or releases calls it; for EventLost, the one that found out. Several may do so
// at once. It must not block, and must not use the lock.
type Observer interface {
	Observe(Event)
}

// EventKind says what happened.
type EventKind string

const (
	EventWaiting   EventKind = "waiting"   // a wait has begun; Info is the holder's claim
	EventAcquired  EventKind = "acquired"  // Duration is how long it took
	EventReclaimed EventKind = "reclaimed" // taken over from a dead holder: Info and Evidence
	EventReleased  EventKind = "released"  // Duration is how long it was held
	EventLost      EventKind = "lost"      // found to be no longer ours, after Duration
)

// Event is one thing that happened to one lock.
type Event struct {
	Kind     EventKind
	Path     string
	Cmd      string
	Info     *LockInfo // the holder's claim, for EventWaiting and EventReclaimed, if it is known
	Evidence Evidence  // on that holder
	Duration time.Duration
}

func (p *place) observe(e Event) {
	if p.file.Observer == nil {
		return
	}
	e.Path, e.Cmd = p.file.Path, p.file.Cmd
	p.file.Observer.Observe(e)
}

// SlogObserver returns an Observer that writes to a logger: EventReclaimed and EventLost as
// warnings, the others for debugging.
func SlogObserver(l *slog.Logger) Observer { return slogObserver{l} }

type slogObserver struct{ logger *slog.Logger }

func (o slogObserver) Observe(e Event) {
	level := slog.LevelDebug
	if e.Kind == EventReclaimed || e.Kind == EventLost {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("path", e.Path)}
	if e.Cmd != "" {
		attrs = append(attrs, slog.String("cmd", e.Cmd))
	}
	if e.Duration != 0 {
		attrs = append(attrs, slog.Duration("duration", e.Duration))
	}
	if e.Info != nil {
		attrs = append(attrs, slog.Group("holder", slog.Int("pid", e.Info.PID),
			slog.String("host", e.Info.Hostname), slog.String("cmd", e.Info.Cmd), slog.Time("since", e.Info.CreatedAt)))
	}
	if e.Evidence != "" {
		attrs = append(attrs, slog.String("evidence", string(e.Evidence)))
	}
	o.logger.LogAttrs(context.Background(), level, "lock "+string(e.Kind), attrs...)
}
