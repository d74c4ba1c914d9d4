//go:build linux

package main

import (
	"math/rand/v2"
	"time"
)

// park gives a process time to get to its wait: nobody tells when it is there. Those
// that poll are met at any point between two tries.
func park(p *peer) {
	d := 3 * time.Millisecond
	if p.poll > 0 {
		d += rand.N(p.poll)
	}
	time.Sleep(d)
}

// handoff measures from just before a release in one process until just after the
// acquisition in another, which waits for it.
func (b *bench) handoff() {
	for _, dir := range b.folders() {
		var all []contestant
		for _, p := range b.peers {
			pair, stop, err := group(p, b.fresh(dir.path), 2)
			defer stop()
			all = append(all, contestant{p.Name, func() (float64, error) {
				if err != nil {
					return 0, err
				}
				ns, err := handOver(p, pair[0], pair[1])
				if err != nil {
					stop()
				}
				return ns, err
			}})
		}
		b.r.Handoff = append(b.r.Handoff, takeTurns(dir.name, b.rounds(80, 3), pick(b, 6*time.Second, 2*time.Second), floorName, all)...)
	}
}

// handLimit is when a hand-off is given up; a quick run has no time for those who wait
// for a claim to grow old.
var handLimit = 15 * time.Second

func handOver(p *peer, from, to *process) (float64, error) {
	if _, err := from.ask(handLimit, "lock"); err != nil {
		return 0, err
	}
	if err := to.order("lock"); err != nil {
		return 0, err
	}
	park(p)
	gave, err := from.ask(handLimit, "unlock")
	if err != nil {
		return 0, err
	}
	had, err := to.answer(handLimit)
	if err != nil {
		return 0, err
	}
	if _, err := to.ask(handLimit, "unlock"); err != nil {
		return 0, err
	}
	return float64(had[1] - gave[0]), nil
}

// afterKill measures from SIGKILL for the holder until the acquisition in another
// process, which waits for it.
func (b *bench) afterKill() {
	b.r.AfterKill = b.killed(func(p *peer, victim, heir *process) (float64, error) {
		if err := heir.order("lock"); err != nil {
			return 0, err
		}
		park(p)
		begin := clock()
		victim.kill()
		had, err := heir.answer(handLimit)
		if err != nil {
			return 0, err
		}
		return float64(had[1] - begin), nil
	})
}

// reclaim measures an acquisition of a lock whose holder was killed before.
func (b *bench) reclaim() {
	b.r.Reclaim = b.killed(func(p *peer, victim, heir *process) (float64, error) {
		victim.kill()
		time.Sleep(3 * time.Millisecond)
		took, err := heir.ask(handLimit, "lock")
		if err != nil {
			return 0, err
		}
		return float64(took[1] - took[0]), nil
	})
}

// killed has a new victim hold the lock for each turn.
func (b *bench) killed(die func(p *peer, victim, heir *process) (float64, error)) []Figure {
	var all []contestant
	for _, p := range b.peers {
		path := b.fresh(b.fast())
		heir, err := start(p, path)
		if err == nil {
			defer heir.kill()
		}
		all = append(all, contestant{p.Name, func() (float64, error) {
			if err != nil {
				return 0, err
			}
			victim, err := start(p, path)
			if err != nil {
				return 0, err
			}
			defer victim.kill()
			if _, err := victim.ask(handLimit, "lock"); err != nil {
				return 0, err
			}
			ns, err := die(p, victim, heir)
			if err != nil {
				heir.kill()
				return 0, err
			}
			_, err = heir.ask(handLimit, "unlock")
			return ns, err
		}})
	}
	return takeTurns("", b.rounds(15, 1), pick(b, 5*time.Second, time.Second), floorName, all)
}
