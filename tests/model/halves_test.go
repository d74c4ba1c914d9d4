package model

import "testing"

// TestHalves_Cover: whatever the joint model comes to, each half comes to, too, as far as it has it.
// So what can't be in a half can't be in the joint model. (Waits that are cancelled are not tried:
// they end elsewhere in a half.)
func TestHalves_Cover(t *testing.T) {
	for _, m := range []Machine{
		{Roles: []Role("www"), Budget: may(crash, 1)},
		{Roles: []Role("wwr"), Budget: may(crash, 1)},
		{Roles: []Role("wrr")},
		{Roles: []Role("tu"), Budget: may(crash, 1, rmS, 1)},
		{Roles: []Role("ww"), Budget: may(crash, 1, again, 1), Turnstile: true, Tidy: true},
		{Roles: []Role("wr"), Budget: may(stop, 1, rmS, 1), Turnstile: true, Tidy: true},
		{Roles: []Role("wr"), Budget: may(crash, 1, rmS, 1, rmP, 1), DeadFile: true, DeadMarker: true},
	} {
		for p := lockFileHalf; p <= queueHalf; p++ {
			half, _ := m.half(p)
			of := map[state]bool{}
			half.each(func(s *state) { half.orders(half.seen(s), 0, func(s state) { of[s] = true }) })
			m.each(func(s *state) {
				ordered := half
				ordered.inOrder = true
				part := half.seen(s)
				if ordered.canonical(&part); !of[part] && !t.Failed() {
					t.Errorf("%s%s is never as in %s: %+v", halves[p].name, half.rolesText(), m.disk(s), s)
				}
			})
		}
	}
}

// each calls yield with all states that there can be.
func (m *Machine) each(yield func(s *state)) {
	g := &graph{}
	m.first(g)
	for k := 0; k < len(g.states); k++ {
		s := g.states[k]
		yield(&s)
		m.next(&s, func(_ act, to *state) { g.find(to, uint32(k)) })
	}
}

// orders calls yield with a state in all orders of the processes of one role, from process i on.
func (m *Machine) orders(s state, i int, yield func(s state)) {
	if i == len(m.Roles) {
		ordered := *m
		ordered.inOrder = true
		ordered.canonical(&s)
		yield(s)
		return
	}
	for k := i; k < len(m.Roles); k++ {
		if m.Roles[k] == m.Roles[i] {
			s.swap(i, k)
			m.orders(s, i+1, yield)
			s.swap(i, k)
		}
	}
}

// seen is what of a state is in a half. Who is at a step that the half does not have is where they
// last were in it.
func (m *Machine) seen(of *state) state {
	s := *of
	s.left, s.fence, s.unheard, s.bad = [budgets]uint8{}, 0, 0, none
	for r := range s.file {
		s.file[r].tells = 0
	}
	for i := range m.Roles {
		p := &s.proc[i]
		p.flags &^= knows | tidied | missed
		switch {
		case m.Part == lockFileHalf:
			p.sib, p.turn, p.line, p.behind, p.ahead = 0, 0, 0, 0, 0
			switch at := p.at; {
			case at <= siblingChecked, at == anotherRound:
				p.at = out
				p.flags &^= stopped // who is out and stopped just does not come
			case at == turnstileLeft:
				p.at = claimWritten
			case at >= tidyAlone && at <= siblingStays && p.own != 0:
				p.at = ownUnlocked
			case at >= tidyAlone && at <= siblingStays, at == tidiesUp, at == tidiesUpOpened:
				p.at = siblingUnlocked
			}
		case m.Part == queueHalf:
			p.flags &^= clears | lost
			holds := p.own != 0
			p.own, p.dead, p.mark = 0, 0, 0
			switch at := p.at; {
			case at >= lockFileCreated && at <= lockFileChecked:
				p.at = siblingChecked
			case at >= fenceAsked && at <= endTold, at >= sharedDropped && at <= aloneLooked,
				holds && steps[at].met, at == readersJoined:
				p.at = held
			case at > lockFileThere && at < held, at == abandons, at == abandonsAlone, at == abandonsLooked:
				p.at = lockFileThere
			case at >= looksAgain && at <= looksAgainLooked:
				p.at = siblingUnlocked
			}
		}
	}
	if m.Part == lockFileHalf {
		s.S = 0
	} else {
		s.P, s.M = 0, 0
	}
	return s
}
