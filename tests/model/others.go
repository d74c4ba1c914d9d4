package model

// Programs that do not keep the rules, Inspect, which only looks, and flock(1), which knows
// only the sibling.
const (
	inspects place = places + iota
	inspectorOpened
	inspectorLocked

	exclOut
	exclCreated
	exclHolds
	exclLooked
	thiefRead
	markerRead
	markerMade
	markerSame
	markerGone
	markerOver
	markerFails

	flockOut
	flockOpened
	flockHolds

	otherPlaces
)

func addOthers() {
	for at, s := range map[place]step{
		inspects:        {name: "inspects", do: (*turn).inspect},
		inspectorOpened: {name: "opened to look", do: (*turn).inspectLock},
		inspectorLocked: {name: "own lock taken to look", hook: true, do: (*turn).inspected},

		exclOut:     {name: "comes", hook: true, do: (*turn).exclCreate},
		exclCreated: {name: "its file created", hook: true, do: (*turn).exclWrite, relies: true},
		exclHolds:   {name: "holds", hook: true, do: (*turn).exclLook, relies: true, holds: true},
		exclLooked:  {name: "its file looked at", hook: true, do: (*turn).exclRemove, relies: true},
		thiefRead:   {name: "read a dead pid", hook: true, do: (*turn).thiefRemove},

		markerRead:  {name: "read a dead pid there", hook: true, do: (*turn).othersMarker},
		markerMade:  {name: "its marker made", hook: true, do: (*turn).othersReread, hasMarker: true},
		markerSame:  {name: "the dead claim read again", hook: true, do: (*turn).othersRemove, hasMarker: true},
		markerGone:  {name: "the dead claim removed", hook: true, do: (*turn).othersCreate, hasMarker: true},
		markerOver:  {name: "claims, and still has its marker", hook: true, do: (*turn).othersHave, hasMarker: true, relies: true},
		markerFails: {name: "has its marker for nothing", hook: true, do: (*turn).othersFail, hasMarker: true},

		flockOut:    {name: "comes to the sibling", hook: true, do: (*turn).flockOpen},
		flockOpened: {name: "waits at the sibling", hook: true, do: (*turn).flockLock},
		flockHolds:  {name: "holds the sibling", hook: true, do: (*turn).flockUnlock, holds: true},
	} {
		steps[at] = s
	}
}

// ---- Inspect

func (t *turn) inspect() {
	if t.s.P == 0 {
		t.end("finds no lock file")
		return
	}
	t.me().dead = t.s.P
	t.reach(inspectorOpened, "opens the lock file")
}

func (t *turn) inspectLock() {
	p := t.me()
	// Of an exclusive claim, shared: a readers' file, or one without a claim, would look joined.
	is := t.s.at(p.dead).is
	exclusive := is&whole == 0 || is&shared != 0
	if t.s.free(p.dead, t.i, exclusive) {
		t.s.lock(p.dead, t.i, exclusive)
		t.reach(inspectorLocked, "has its lock for an instant")
		return
	}
	t.end("finds it locked")
}

func (t *turn) inspected() { t.end("lets go") }

// ---- O_EXCL only

func (t *turn) exclCreate() {
	p := t.me()
	if t.s.P == 0 {
		t.s.P = t.s.create(t.number(), foreign)
		*p = proc{own: t.s.P}
		t.reach(exclCreated, "creates the lock file")
		return
	}
	f := t.s.at(t.s.P)
	deadPid := f.is&whole != 0 && t.s.gone(f.maker)
	switch {
	case deadPid && t.role() == Thief:
		t.reach(thiefRead, "reads the pid of a dead process")
	case deadPid && t.role() == OnlyMarker:
		p.dead = t.s.P
		t.reach(markerRead, "reads the pid of a dead process")
	default:
		t.giveUp("finds the lock file there, and gives up")
	}
}

func (t *turn) exclWrite() {
	t.s.at(t.me().own).is |= whole
	t.reach(exclHolds, "writes its claim, and has the lock")
}

func (t *turn) exclLook() {
	if t.s.P == t.me().own {
		t.reach(exclLooked, "finds its own claim in the lock file")
		return
	}
	t.end("finds another's lock file, and leaves it")
}

func (t *turn) exclRemove() {
	t.removeFile()
	t.end("removes the lock file by its path")
}

func (t *turn) thiefRemove() {
	t.removeFile()
	t.reach(exclOut, "removes the lock file by its path")
}

// ---- the marker only (seed entwurf)

func (t *turn) othersMarker() {
	p := t.me()
	if t.s.M != 0 {
		t.giveUp("finds a marker there, and gives up")
		return
	}
	t.s.M = t.s.create(t.number(), whole|foreign)
	p.mark = t.s.M
	t.reach(markerMade, "makes its marker")
}

func (t *turn) othersReread() {
	if t.s.P == t.me().dead {
		t.reach(markerSame, "reads the same dead claim again")
		return
	}
	t.reach(markerFails, "finds that the claim has changed")
}

func (t *turn) othersRemove() {
	t.removeFile()
	t.me().dead = 0
	t.reach(markerGone, "removes the lock file by its path")
}

func (t *turn) othersCreate() {
	p := t.me()
	if t.s.P == 0 {
		t.s.P = t.s.create(t.number(), whole|foreign)
		p.own = t.s.P
		t.reach(markerOver, "creates the lock file")
		return
	}
	t.reach(markerFails, "finds that another was faster")
}

func (t *turn) othersHave() {
	t.removeMarker()
	t.me().mark = 0
	t.reach(exclHolds, "removes its marker by its path, and has the lock")
}

func (t *turn) othersFail() {
	t.removeMarker()
	t.giveUp("removes its marker by its path, and gives up")
}

// ---- flock(1) on the sibling

func (t *turn) flockOpen() {
	if t.s.S == 0 {
		t.s.S = t.s.create(t.number(), 0)
	}
	t.me().sib = t.s.S
	t.reach(flockOpened, "opens the sibling")
}

func (t *turn) flockLock() {
	p := t.me()
	if t.s.free(p.sib, t.i, true) {
		t.s.lock(p.sib, t.i, true)
		t.reach(flockHolds, "locks the sibling, and has the lock")
	}
}

func (t *turn) flockUnlock() { t.end("unlocks the sibling") }
