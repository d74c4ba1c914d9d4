package pg_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/pg"
)

// TestJudge: who is given up of those that ask for a lock, and who is not.
func TestJudge(t *testing.T) {
	const silence = 10 * time.Second
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	looked := ago(time.Second)
	type look struct{ seen, there, waiting bool }
	for name, c := range map[string]struct {
		asks  *pg.Asking
		look  look
		over  bool
		after pg.Asking
	}{
		"it asks no more":                         {nil, look{}, false, pg.Asking{}},
		"it has answered, and asks again":         {&pg.Asking{Sent: now, Heard: now, Idle: true}, look{seen: true, there: true}, false, pg.Asking{Sent: now, Heard: now, Idle: true}},
		"it has ended, and one asks in its place": {&pg.Asking{Sent: now, Heard: now}, look{seen: true}, false, pg.Asking{Sent: now, Heard: now}},
		"it waits": {&pg.Asking{Sent: ago(time.Hour), Heard: ago(time.Minute)}, look{true, true, true}, false,
			pg.Asking{Sent: ago(time.Hour), Heard: looked}},
		"it waits again": {&pg.Asking{Sent: ago(time.Hour), Heard: ago(time.Minute), Idle: true}, look{true, true, true}, false,
			pg.Asking{Sent: ago(time.Hour), Heard: looked}},
		"it does not wait": {&pg.Asking{Sent: ago(time.Hour), Heard: ago(time.Minute)}, look{true, true, false}, false,
			pg.Asking{Sent: ago(time.Hour), Heard: ago(time.Minute), Idle: true}},
		"it does not wait, and did not": {&pg.Asking{Sent: ago(time.Hour), Heard: ago(time.Minute), Idle: true}, look{true, true, false}, true,
			pg.Asking{Sent: ago(time.Hour), Heard: ago(time.Minute), Idle: true}},
		"it is gone": {&pg.Asking{Sent: ago(time.Hour), Heard: ago(time.Minute)}, look{seen: true}, true,
			pg.Asking{Sent: ago(time.Hour), Heard: ago(time.Minute)}},
		"nothing was learned": {&pg.Asking{Sent: ago(time.Hour), Heard: ago(silence / 2)}, look{}, false,
			pg.Asking{Sent: ago(time.Hour), Heard: ago(silence / 2)}},
		"nothing was learned for long": {&pg.Asking{Sent: ago(time.Hour), Heard: ago(silence * 9 / 10)}, look{}, true,
			pg.Asking{Sent: ago(time.Hour), Heard: ago(silence * 9 / 10)}},
		"nothing was learned of one that has just asked": {&pg.Asking{Sent: now, Heard: now}, look{}, false, pg.Asking{Sent: now, Heard: now}},
	} {
		over, after := pg.Judge(c.asks, c.look.seen, c.look.there, c.look.waiting, looked)
		if over != c.over || after != c.after {
			t.Errorf("%s: given up: %t, and then %+v; want %t, %+v", name, over, after, c.over, c.after)
		}
	}
}

// TestReap: sessions that lie idle for long are ended, however often that comes to pass, and
// no others.
func TestReap(t *testing.T) {
	l := open(t, pg.Options{})
	for range 3 {
		check(t, acquire(t, l, key()).Release())
		if !l.Reap(0) {
			t.Fatal("nobody looks after a session that lies idle")
		}
		if _, idle, _ := l.Stat(); idle != 1 {
			t.Fatalf("%d sessions lie idle after a moment, want one", idle)
		}
		if !l.Reap(time.Minute) {
			t.Fatal("nobody looks after one that was left")
		}
		if _, idle, _ := l.Stat(); idle != 0 {
			t.Fatalf("%d sessions lie idle after a minute, want none", idle)
		}
	}
	for lease, want := range map[time.Duration]time.Duration{0: time.Minute, time.Hour: time.Minute, 30 * time.Second: 10 * time.Second} {
		equal(t, pg.IdleFor(lease), want, "with a lease of", lease, "one may lie idle for")
	}
}
