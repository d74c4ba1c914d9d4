package lock

import (
	"context"
	"log/slog"
	"time"
)

// An Observer is told what becomes of locks, for logs and metrics. It is called
// by the goroutine that acquires or releases (Lost: by the one that found out),
// must not block, and must not use the lock.
type Observer interface {
	Observe(Event)
}

// EventKind says what happened.
type EventKind string

const (
	Waiting   EventKind = "waiting"   // begun to wait; Holder is in the way
	Acquired  EventKind = "acquired"  // Duration is how long it took
	Reclaimed EventKind = "reclaimed" // taken over from the dead Holder, on this Evidence
	Released  EventKind = "released"  // Duration is how long it was held
	Lost      EventKind = "lost"      // found to be no longer ours, after Duration
)

// Event is one thing that happened to one lock.
type Event struct {
	Kind     EventKind
	Path     string
	Cmd      string
	Holder   *LockInfo // of Waiting and Reclaimed, if it is known
	Evidence Evidence  // on Holder
	Duration time.Duration
}

func (p *place) observe(e Event) {
	if p.file.Observer == nil {
		return
	}
	e.Path, e.Cmd = p.file.Path, p.file.Cmd
	p.file.Observer.Observe(e)
}

// SlogObserver returns an Observer that writes to a logger: Reclaimed and Lost as
// warnings, the others for debugging.
func SlogObserver(l *slog.Logger) Observer { return slogObserver{l} }

type slogObserver struct{ logger *slog.Logger }

func (o slogObserver) Observe(e Event) {
	level := slog.LevelDebug
	if e.Kind == Reclaimed || e.Kind == Lost {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("path", e.Path)}
	if e.Cmd != "" {
		attrs = append(attrs, slog.String("cmd", e.Cmd))
	}
	if e.Duration != 0 {
		attrs = append(attrs, slog.Duration("duration", e.Duration))
	}
	if e.Holder != nil {
		attrs = append(attrs, slog.Group("holder", slog.Int("pid", e.Holder.PID),
			slog.String("host", e.Holder.Hostname), slog.String("cmd", e.Holder.Cmd), slog.Time("since", e.Holder.CreatedAt)))
	}
	if e.Evidence != "" {
		attrs = append(attrs, slog.String("evidence", string(e.Evidence)))
	}
	o.logger.LogAttrs(context.Background(), level, "lock "+string(e.Kind), attrs...)
}
