package pg

import (
	"fmt"
	"strings"
	"time"
)

// After a sign of life, that question is the session's last query, and its time is the last
// change of state. So the question says since when each lock is held, for others to read in
// pg_stat_activity.
const (
	sinceBegins = "/* holdfast since:"
	sinceEnds   = "*/"
	// sinceMost bounds the note: the server keeps 1024 bytes.
	sinceMost = 15
)

// sinceNote is that note, a comment.
func (s *session) sinceNote() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	b.WriteString(sinceBegins)
	n := 0
	for h := range s.holds {
		if n++; n > sinceMost {
			break
		}
		fmt.Fprintf(&b, " %s=%s", h.number, h.since.UTC().Format(time.RFC3339Nano))
	}
	b.WriteString(" " + sinceEnds)
	return b.String()
}

// notedSince finds a lock in a note.
func notedSince(query string, n number) (since time.Time, ok bool) {
	_, note, _ := strings.Cut(query, sinceBegins)
	note, _, _ = strings.Cut(note, sinceEnds)
	for field := range strings.FieldsSeq(note) {
		name, at, _ := strings.Cut(field, "=")
		if name == n.String() {
			since, err := time.Parse(time.RFC3339Nano, at)
			return since, err == nil
		}
	}
	return time.Time{}, false
}
