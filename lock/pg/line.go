package pg

import (
	"slices"
	"sync"
	"time"
)

// lines are the queues in this process, one for each lock. Only the first in it asks the
// server, and waits there, however many want the lock. An acquisition on the session of an
// outer hold takes no place: it needs no further connection, and must not stand behind
// waiters for one.
type lines struct {
	mu sync.Mutex // guards all of it
	of map[number]*line
}

type line struct {
	queue []*place
	holds []*Hold // of this Locker
	// ghosts are sessions that had the lock, and may still have it on the server.
	ghosts int
	gone   chan struct{} // closed when there is none left
	asking *session      // of the first, while it asks
}

// place is one in a line.
type place struct {
	lines  *lines
	number number
	first  chan struct{} // closed when nobody is before it any more
}

// get returns the line of a lock, made if it is missing. The caller has ls.mu.
func (ls *lines) get(n number) *line {
	if ls.of == nil {
		ls.of = map[number]*line{}
	}
	l := ls.of[n]
	if l == nil {
		l = &line{}
		ls.of[n] = l
	}
	return l
}

// tidy forgets a line that nobody needs. The caller has ls.mu.
func (ls *lines) tidy(n number, l *line) {
	if len(l.queue) == 0 && len(l.holds) == 0 && l.ghosts == 0 {
		delete(ls.of, n)
	}
}

// enter takes the last place, and says whether it is the first.
func (ls *lines) enter(n number) (p *place, first bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.get(n)
	p = &place{lines: ls, number: n}
	l.queue = append(l.queue, p)
	if len(l.queue) == 1 {
		return p, true
	}
	p.first = make(chan struct{})
	return p, false
}

// leave gives up the place. If it was the first, the next one is now.
func (p *place) leave() {
	ls := p.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.of[p.number]
	at := slices.Index(l.queue, p)
	l.queue = slices.Delete(l.queue, at, at+1)
	if at == 0 {
		l.asking = nil
		if len(l.queue) > 0 {
			close(l.queue[0].first)
		}
	}
	ls.tidy(p.number, l)
}

// asks notes the session with which the first asks.
func (p *place) asks(s *session) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	p.lines.of[p.number].asking = s
}

// held notes a hold, and its end.
func (ls *lines) held(h *Hold, begins bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.get(h.number)
	if begins {
		l.holds = append(l.holds, h)
		return
	}
	l.holds = slices.DeleteFunc(l.holds, func(other *Hold) bool { return other == h })
	ls.tidy(h.number, l)
}

// inTheWay tells what this process knows of a lock: a hold of its own, or the session with
// which it asks for it.
func (ls *lines) inTheWay(n number) (h *Hold, asking *session) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of[n]; l != nil {
		if len(l.holds) > 0 {
			h = l.holds[0]
		}
		return h, l.asking
	}
	return nil, nil
}

// ghostPatience bounds how long the end of a lost session is waited for.
const ghostPatience = 2 * time.Second

// ghost notes that a session with these locks was lost, until gone is called.
func (ls *lines) ghost(numbers []number) (gone func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, n := range numbers {
		l := ls.get(n)
		if l.ghosts == 0 {
			l.gone = make(chan struct{})
		}
		l.ghosts++
	}
	return func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		for _, n := range numbers {
			l := ls.get(n)
			if l.ghosts--; l.ghosts == 0 {
				close(l.gone)
				ls.tidy(n, l)
			}
		}
	}
}

// haunted returns what to wait for before a lock is asked for; nil if there is nothing.
func (ls *lines) haunted(n number) <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of[n]; l != nil && l.ghosts > 0 {
		return l.gone
	}
	return nil
}
