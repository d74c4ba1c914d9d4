package model

// ---- reclaim

func (t *turn) createMarker() {
	p := t.me()
	if !t.m.has(theMarker) {
		t.reach(deadTold, "makes no marker")
		return
	}
	if t.s.M != 0 {
		t.reach(markerThere, "finds a marker there")
		return
	}
	t.s.M = t.s.create(t.number(), marked)
	p.mark = t.s.M
	t.reach(markerCreated, "creates the marker")
}

func (t *turn) lockMarker() {
	p := t.me()
	if !t.m.has(lockMarker) {
		t.reach(markerLocked, "does not lock the marker")
		return
	}
	if t.s.free(p.mark, t.i, true) {
		t.s.lock(p.mark, t.i, true)
		t.reach(markerLocked, "locks the marker")
		return
	}
	if t.s.M != p.mark {
		p.mark = 0
		t.reach(markerAgain, "sees that its marker has gone")
		return
	}
	if t.role().tries() {
		t.giveUp("finds its marker locked, and gives up") // a thread abandons it
	}
}

func (t *turn) checkMarker() {
	p := t.me()
	if t.s.M != p.mark && t.m.has(lookMarker) {
		t.s.unlock(p.mark, t.i)
		p.mark = 0
		t.reach(markerAgain, "finds that its marker has gone")
		return
	}
	t.reach(markerChecked, "finds its marker in its place")
}

func (t *turn) writeMarker() {
	t.s.at(t.me().mark).is |= whole
	t.reach(markerWritten, "writes its claim into the marker")
}

// tellDead writes into the sibling how the dead holder ended. It is the sibling that we have
// locked, unless that was removed; else the one at the path.
func (t *turn) tellDead() {
	p := t.me()
	d := t.s.at(p.dead)
	if d.is&(whole|shared|released) == whole {
		sib := p.sib
		if sib == 0 || sib != t.s.S {
			sib = t.s.S
		}
		if sib != 0 && t.m.has(tellDeath) {
			t.s.at(sib).tells = d.maker
			t.s.at(sib).is |= marked
		}
	}
	t.reach(deadTold, "writes down who has died")
}

func (t *turn) rereadDead() {
	// What is in a file whose own lock is ours does not change.
	t.reach(deadReread, "reads the dead claim again")
}

func (t *turn) lookDead() {
	p := t.me()
	if t.s.P == p.dead || !t.m.has(lookDead) {
		t.reach(deadLooked, "finds the dead claim in its place")
		return
	}
	p.flags |= missed
	t.reach(reclaimMoved, "finds that the dead claim has moved")
}

func (t *turn) removeDead() {
	if d := t.s.at(t.me().dead); t.m.Part == joint && d.is&(whole|shared|released|foreign) == whole {
		t.s.unheard = d.maker
		t.me().flags |= knows
	}
	t.removeFile()
	if t.me().mark == 0 { // without a marker
		t.reach(markerRemoved, "removes the dead claim")
		return
	}
	t.reach(deadRemoved, "removes the dead claim")
}

func (t *turn) lookMarker() {
	p := t.me()
	if p.mark == 0 {
		t.afterReclaim()
		return
	}
	if t.s.M == p.mark || !t.m.has(lookOwnMarker) {
		t.reach(markerLooked, "finds its marker in its place")
		return
	}
	t.s.unlock(p.mark, t.i)
	p.mark = 0
	t.reach(markerRemoved, "finds that its marker has gone")
}

func (t *turn) discardMarker() {
	p := t.me()
	t.removeMarker()
	t.s.unlock(p.mark, t.i)
	p.mark = 0
	t.reach(markerRemoved, "removes its marker, and lets go of it")
}

func (t *turn) afterReclaim() {
	p := t.me()
	if p.flags&missed != 0 {
		p.flags &^= missed
		t.moved("begins again")
		return
	}
	t.s.unlock(p.dead, t.i)
	p.dead = 0
	t.reach(anotherRound, "lets go of the dead file")
}

// ---- a marker is there: removeMarker, by takeMarker, or by hold (then p.own is set)

func (t *turn) holds() bool { return t.me().own != 0 }

func (t *turn) openMarker() {
	p := t.me()
	if t.s.M == 0 {
		t.backFromMarker("finds the marker gone")
		return
	}
	p.mark = t.s.M
	t.reach(markerFound, "opens the marker")
}

// backFromMarker goes on where the marker was met.
func (t *turn) backFromMarker(why string) {
	p := t.me()
	t.s.unlock(p.mark, t.i)
	p.mark = 0
	if t.holds() {
		t.reach(held, why)
		return
	}
	t.reach(markerAgain, why)
}

func (t *turn) lockMarkerFound() {
	p := t.me()
	switch {
	case !t.m.has(lockMarkerFound):
		t.reach(markerFoundLocked, "does not lock the marker")
	case t.s.free(p.mark, t.i, true):
		t.s.lock(p.mark, t.i, true)
		t.reach(markerFoundLocked, "locks the marker")
	case t.holds():
		t.backFromMarker("finds the marker locked, and leaves it")
	case t.role().tries() && t.staysAt(t.s.M, p.mark):
		t.giveUp("finds the marker locked, and gives up")
	case t.s.M != p.mark:
		t.backFromMarker("sees that the marker has gone")
	}
}

func (t *turn) checkMarkerFound() {
	if t.s.M != t.me().mark && t.m.has(lookMarkerFound) {
		t.backFromMarker("finds that the marker has moved")
		return
	}
	t.reach(markerFoundStands, "finds the marker in its place")
}

func (t *turn) judgeMarker() {
	p := t.me()
	if isDead, why := t.deadFile(t.s.at(p.mark)); isDead {
		t.reach(markerReread, "judges the marker's maker dead: "+why)
		return
	}
	if t.holds() {
		t.backFromMarker("can't judge the marker dead, and leaves it")
		return
	}
	if t.role().tries() {
		t.giveUp("can't judge the marker dead, and gives up")
		return
	}
	t.s.unlock(p.mark, t.i)
	t.s.unlock(p.dead, t.i)
	p.mark, p.dead = 0, 0
	t.reach(anotherRound, "can't judge the marker dead, and looks again later")
}

func (t *turn) lookDeadMarker() {
	if t.s.M == t.me().mark || !t.m.has(lookDeadMarker) {
		t.reach(markerDeadLooked, "finds the dead marker in its place")
		return
	}
	t.backFromMarker("finds that the dead marker has moved")
}

func (t *turn) removeDeadMarker() {
	t.removeMarker()
	t.backFromMarker("removes the dead marker")
}
