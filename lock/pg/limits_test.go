package pg_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
)

// TestNamesRemembered: a name is taken to be there for half a day, and so many of them are
// kept that a process which locks ever new ones does not grow.
func TestNamesRemembered(t *testing.T) {
	ns, k := pg.NewNames(), lock.Key{Space: "a", Name: "b"}
	for age, want := range map[time.Duration]bool{0: true, pg.RememberFor - time.Minute: true, pg.RememberFor + time.Minute: false} {
		ns.Remember(1, k, time.Now().Add(-age))
		if got, known := ns.Known(1); known != want || got != k {
			t.Errorf("seen %v ago: %v, %t; want %t", age, got, known, want)
		}
	}
	if _, known := ns.Known(2); known {
		t.Error("a name is known that nobody has looked for")
	}
	for i := range 3 * pg.RememberMost {
		ns.Remember(int64(i), k, time.Now())
		if ns.Entered() > pg.RememberMost {
			t.Fatalf("%d names are kept", ns.Entered())
		}
	}
	if _, known := ns.Known(3*pg.RememberMost - 1); !known {
		t.Error("the last name is not known")
	}
}

// TestSinceNote fits into what the server keeps of a query, however many locks a session has.
func TestSinceNote(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	if got, ok := pg.NotedSince("SELECT "+pg.SinceNote(1, at), 0); !ok || !got.Equal(at) {
		t.Errorf("noted since %v, %t; want %v", got, ok, at)
	}
	if _, ok := pg.NotedSince("SELECT "+pg.SinceNote(1, at), 1); ok {
		t.Error("found a lock that is not in the note")
	}
	if note := pg.SinceNote(100, at); len("SELECT "+note) > 1000 || !strings.HasSuffix(note, "*/") {
		t.Errorf("of a hundred locks it has %d bytes: %s", len(note), note)
	}
}

// TestLongestNames: a space and a name of as many bytes as are allowed, and of one more.
func TestLongestNames(t *testing.T) {
	l := open(t, pg.Options{Conn: database(t)})
	long := strings.Repeat("n", 1024)
	check(t, acquire(t, l, lock.Key{Space: long, Name: long}).Release())
	for _, k := range []lock.Key{{Space: long + "n", Name: "a"}, {Space: "a", Name: long + "n"}} {
		_, err := l.TryAcquire(limited(t), k)
		wantIs(t, err, lock.ErrInvalidName)
	}
}

// TestClosed: a Locker that is closed asks nothing, and connects no more.
func TestClosed(t *testing.T) {
	l := open(t, pg.Options{})
	l.Close()
	if last, err := l.LastFence(limited(t), key()); err == nil || !strings.Contains(err.Error(), "the Locker is closed") {
		t.Errorf("the last fence is %d, %v", last, err)
	}
	for _, err := range l.List(limited(t)) {
		that(t, err != nil && strings.Contains(err.Error(), "the Locker is closed"), "listed: %v", err)
	}
	if s, err := l.Inspect(limited(t), key()); err == nil || !strings.Contains(err.Error(), "the Locker is closed") {
		t.Errorf("inspected: %+v, %v", s, err)
	}
	if _, err := l.TryAcquire(limited(t), key()); err == nil || !strings.Contains(err.Error(), "the Locker is closed") {
		t.Errorf("acquired: %v", err)
	}
}
