//go:build linux

package main

import (
	"slices"
	"time"
)

const holdFor = 2 * time.Millisecond

// contention has processes take one lock for two milliseconds each, again and again.
func (b *bench) contention() {
	type key struct{ n, think int }
	var found []*Contention
	waits := map[*Contention][]float64{}
	for range pick(b, 2, 1) {
		at := 0
		for _, p := range b.peers {
			b.say("contention: %s", p.Name)
			all, stop, err := group(p, b.fresh(b.fast()), pick(b, 64, 6))
			for _, k := range []key{{2, 0}, {6, 0}, {24, 0}, {64, 0}, {2, 1}, {6, 1}, {24, 1}, {64, 1}} {
				if k.n > len(all) && err == nil {
					continue
				}
				if at == len(found) {
					found = append(found, &Contention{Peer: p.Name, N: k.n, ThinkMS: k.think})
				}
				c := found[at]
				at++
				if err == nil && c.Note == "" {
					if err = b.contend(c, all[:k.n], waits, time.Duration(k.think)*time.Millisecond); err != nil {
						c.Note = err.Error()
					}
				} else if c.Note == "" {
					c.Note = "not tried: " + err.Error()
				}
			}
			stop()
		}
	}
	for _, c := range found {
		w := waits[c]
		slices.Sort(w)
		if c.High*holdFor.Seconds() > 1.05 {
			c.Note = "more turns than one lock has: not exclusive"
		}
		c.P50, c.P99, c.Longest = quantile(w, 0.5), quantile(w, 0.99), quantile(w, 1)
	}
	for _, c := range found {
		i := slices.IndexFunc(found, func(f *Contention) bool {
			return f.Peer == floorName && f.N == c.N && f.ThinkMS == c.ThinkMS
		})
		if i >= 0 && found[i].PerSecond > 0 && found[i].P99 > 0 {
			c.RatioTotal, c.RatioP99 = c.PerSecond/found[i].PerSecond, c.P99/found[i].P99
		}
		b.r.Contention = append(b.r.Contention, *c)
	}
}

// contend makes one pass, and adds it to c.
func (b *bench) contend(c *Contention, all []*process, waits map[*Contention][]float64, think time.Duration) error {
	span := pick(b, 500*time.Millisecond, 200*time.Millisecond)
	if c.N > 24 {
		span *= 2 // a turn of everybody takes longer
	}
	counts, got, err := loops(all, span, think, "exclusive")
	if err != nil {
		return err
	}
	waits[c] = append(waits[c], got...)
	perSecond := float64(sum(counts)) / span.Seconds()
	if c.Shares == nil {
		slices.Sort(counts)
		c.Shares, c.PerSecond, c.Low, c.High = counts, perSecond, perSecond, perSecond
		c.Fewest, c.Most = slices.Min(counts), slices.Max(counts)
		return nil
	}
	c.PerSecond = (c.PerSecond + perSecond) / 2
	c.Low, c.High = min(c.Low, perSecond), max(c.High, perSecond)
	c.Fewest, c.Most = min(c.Fewest, slices.Min(counts)), max(c.Most, slices.Max(counts))
	return nil
}

// loops has processes acquire and release from one moment on, and returns how often
// each of them had it in that time, and all their waits.
func loops(all []*process, span, think time.Duration, how string) (counts []int, waits []float64, err error) {
	begin := clock() + int64(20*time.Millisecond) + int64(len(all))*int64(200*time.Microsecond)
	for _, a := range all {
		if err := a.order("loop", begin, int64(span), int64(holdFor), int64(think), how); err != nil {
			return nil, nil, err
		}
	}
	limit := time.Now().Add(span + 8*time.Second)
	for _, a := range all {
		got, err := a.answer(time.Until(limit))
		if err != nil {
			return nil, nil, err
		}
		counts = append(counts, int(got[0]))
		for _, w := range got[1:] {
			waits = append(waits, float64(w))
		}
	}
	return counts, waits, nil
}

func sum(all []int) (total int) {
	for _, n := range all {
		total += n
	}
	return total
}

// sharedLocks compares many readers with one.
func (b *bench) sharedLocks() {
	const readers = 8
	span := pick(b, 700*time.Millisecond, 200*time.Millisecond)
	for _, p := range b.peers {
		if !p.readers() {
			continue
		}
		s := Shared{Peer: p.Name}
		all, stop, err := group(p, b.fresh(b.fast()), readers)
		for range pick(b, 2, 1) {
			for _, n := range []int{1, readers} {
				if err != nil {
					break
				}
				var counts []int
				counts, _, err = loops(all[:n], span, 0, "shared")
				if n == 1 {
					s.One += float64(sum(counts)) / span.Seconds() / float64(pick(b, 2, 1))
				} else {
					s.All += float64(sum(counts)) / span.Seconds() / float64(pick(b, 2, 1))
				}
			}
		}
		stop()
		if err != nil {
			s.Note = err.Error()
		} else if s.One > 0 {
			s.Gain = s.All / s.One
		}
		b.r.Shared = append(b.r.Shared, s)
	}
}

// crowd has many goroutines of one process wait for a lock that another process has.
func (b *bench) crowd() {
	for _, p := range b.peers {
		if p.script != "" {
			continue // not Go
		}
		c := Crowd{Peer: p.Name, Goroutines: pick(b, 1000, 50)}
		if p.Name == "flock(1)" {
			c.Note = "not measured: it would be a process for each"
		} else if err := b.gather(p, &c); err != nil {
			c.Note = err.Error()
		}
		b.r.Crowd = append(b.r.Crowd, c)
		if first := b.r.Crowd[0]; first.Peer == floorName && first.Drain > 0 {
			b.r.Crowd[len(b.r.Crowd)-1].Ratio = c.Drain / first.Drain
		}
	}
}

func (b *bench) gather(p *peer, c *Crowd) error {
	pair, stop, err := group(p, b.fresh(b.fast()), 2)
	if err != nil {
		return err
	}
	defer stop()
	if _, err := pair[0].ask(handLimit, "lock"); err != nil {
		return err
	}
	got, err := pair[1].ask(handLimit, "crowd", c.Goroutines)
	if err != nil {
		return err
	}
	c.Threads, c.MemoryKB = got[0], got[1]
	if err := pair[1].order("drain"); err != nil {
		return err
	}
	park(p)
	gave, err := pair[0].ask(handLimit, "unlock")
	if err != nil {
		return err
	}
	got, err = pair[1].answer(8 * time.Second)
	if err != nil {
		return err
	}
	c.Drain, c.Clashes = float64(got[0]-gave[0]), got[1]
	return nil
}
