package model

// Fallback mode: the kernel has no locks here. A claim is written aside, and appears whole
// (link(2)). Whose process has gone is dead. Markers are the only mutex; and as two can take
// one dead marker, the right to remove one file is a further file, named after that file.
const (
	fallbackOut place = formerPlaces + iota
	fallbackWritten
	fallbackCreated
	fallbackChecked
	fallbackThere
	fallbackFound
	fallbackJudged
	fallbackMarkerAgain
	fallbackMarkerWritten
	fallbackMarkerCreated
	fallbackMarkerChecked
	fallbackMarkerThere
	fallbackMarkerFound
	fallbackTold
	fallbackDeadRemoved
	fallbackDeadMoved
	fallbackMarkerLooked
	fallbackMarkerRemoved
	fallbackHeld
	fallbackOwned
	fallbackRemoved
	fallbackRetries

	// remove: p.aim goes, and then the process is at a place that depends on what it was.
	rightWritten
	rightThere
	rightCreated
	rightReread
	rightRereadDead
	rightRereadMarker
	rightLooked
	rightUsed
	rightMissed
	rightDropped

	allPlaces
)

func addFallback() {
	for at, s := range map[place]step{
		fallbackOut:           {name: "out", do: (*turn).fallbackWrite},
		fallbackWritten:       {name: "claim written", hook: true, do: (*turn).fallbackLink},
		fallbackCreated:       {name: "lock file created", hook: true, do: (*turn).fallbackCheck, relies: true},
		fallbackChecked:       {name: "lock file checked", hook: true, do: (*turn).fallbackClear, relies: true, holds: true},
		fallbackThere:         {name: "lock file there", hook: true, says: "lock file created", do: (*turn).fallbackOpen},
		fallbackFound:         {name: "claim read", do: (*turn).fallbackJudge},
		fallbackJudged:        {name: "claim judged dead", hook: true, do: (*turn).fallbackWriteMarker},
		fallbackMarkerAgain:   {name: "another marker", do: (*turn).fallbackWriteMarker},
		fallbackMarkerWritten: {name: "marker written", hook: true, do: (*turn).fallbackLinkMarker},
		fallbackMarkerCreated: {name: "marker created", hook: true, do: (*turn).fallbackCheckMarker, hasMarker: true},
		fallbackMarkerChecked: {name: "marker checked", hook: true, do: (*turn).fallbackTell, hasMarker: true},
		fallbackMarkerThere:   {name: "marker there", hook: true, says: "marker created", do: (*turn).fallbackOpenMarker},
		fallbackMarkerFound:   {name: "marker read", do: (*turn).fallbackJudgeMarker},
		fallbackTold:          {name: "dead holder remembered", hook: true, do: (*turn).fallbackRemoveDead, hasMarker: true},
		fallbackDeadRemoved:   {name: "dead claim removed", hook: true, do: (*turn).fallbackLookMarker, hasMarker: true},
		fallbackDeadMoved:     {name: "dead claim moved", do: (*turn).fallbackLookMarker, hasMarker: true},
		fallbackMarkerLooked:  {name: "own marker looked at", do: (*turn).fallbackDiscard, hasMarker: true},
		fallbackMarkerRemoved: {name: "marker removed", hook: true, do: (*turn).fallbackAgain},
		fallbackHeld:          {name: "held", hook: true, do: (*turn).fallbackRelease, relies: true, holds: true},
		fallbackOwned:         {name: "ownership checked", hook: true, do: (*turn).fallbackRemoveOwn, relies: true},
		fallbackRemoved:       {name: "lock file removed", hook: true, do: (*turn).fallbackEnd},

		fallbackRetries: {name: "tries again", do: (*turn).fallbackRetry, relies: true},

		rightWritten:      {name: "right written", hook: true, do: (*turn).rightLink},
		rightThere:        {name: "right there", hook: true, says: "right created", do: (*turn).rightJudge},
		rightCreated:      {name: "right created", hook: true, do: (*turn).rightReread},
		rightReread:       {name: "read again", do: (*turn).rightLook},
		rightRereadDead:   {name: "dead claim read again", hook: true, do: (*turn).rightLook},
		rightRereadMarker: {name: "dead marker read again", hook: true, do: (*turn).rightLook},
		rightLooked:       {name: "looked at", do: (*turn).rightRemove},
		rightUsed:         {name: "removed", do: (*turn).rightLookOwn},
		rightMissed:       {name: "moved", do: (*turn).rightLookOwn},
		rightDropped:      {name: "right looked at", do: (*turn).rightDrop},
	} {
		steps[at] = s
	}
}

// ---- acquire

func (t *turn) fallbackWrite() {
	*t.me() = proc{}
	t.reach(fallbackWritten, "writes its claim aside")
}

func (t *turn) fallbackLink() {
	if t.s.P != 0 {
		t.reach(fallbackThere, "finds a lock file there")
		return
	}
	t.s.P = t.s.create(t.number(), whole)
	t.me().own = t.s.P
	t.reach(fallbackCreated, "links its claim to the path")
}

func (t *turn) fallbackCheck() { t.reach(fallbackChecked, "removes the other name") }

func (t *turn) fallbackClear() {
	if t.s.M != 0 && t.s.gone(t.s.at(t.s.M).maker) {
		t.me().mark = t.s.M
		t.aim(t.s.M, "has the lock, and finds a dead one's marker")
		return
	}
	t.reach(fallbackHeld, "has the lock")
}

func (t *turn) fallbackOpen() {
	if t.s.P == 0 {
		t.fallbackBegin("finds the lock file gone")
		return
	}
	t.me().dead = t.s.P
	t.reach(fallbackFound, "opens the lock file, and reads it")
}

func (t *turn) fallbackBegin(why string) {
	*t.me() = proc{}
	t.reach(fallbackOut, why)
}

func (t *turn) fallbackJudge() {
	if t.s.gone(t.s.at(t.me().dead).maker) {
		t.reach(fallbackJudged, "judges it dead: process gone")
		return
	}
	t.fallbackBegin("finds its process alive, and looks again later")
}

// ---- the marker

func (t *turn) fallbackWriteMarker() { t.reach(fallbackMarkerWritten, "writes the marker aside") }

func (t *turn) fallbackLinkMarker() {
	p := t.me()
	if t.s.M != 0 {
		t.reach(fallbackMarkerThere, "finds a marker there")
		return
	}
	t.s.M = t.s.create(t.number(), whole)
	p.mark = t.s.M
	t.reach(fallbackMarkerCreated, "links the marker to its path")
}

func (t *turn) fallbackOpenMarker() {
	if t.s.M == 0 {
		t.reach(fallbackMarkerAgain, "finds the marker gone")
		return
	}
	t.me().mark = t.s.M
	t.reach(fallbackMarkerFound, "opens the marker, and reads it")
}

func (t *turn) fallbackCheckMarker() {
	t.reach(fallbackMarkerChecked, "removes the other name of the marker")
}

func (t *turn) fallbackTell() { t.reach(fallbackTold, "writes down who has died") }

func (t *turn) fallbackJudgeMarker() {
	p := t.me()
	if t.s.gone(t.s.at(p.mark).maker) {
		t.aim(p.mark, "judges the marker's maker dead")
		return
	}
	t.fallbackBegin("finds the marker's maker alive, and looks again later")
}

func (t *turn) fallbackRemoveDead() { t.aim(t.me().dead, "wants to remove the dead claim") }

func (t *turn) fallbackLookMarker() {
	if p := t.me(); t.s.M != p.mark {
		p.mark = 0
		t.reach(fallbackMarkerRemoved, "finds that its marker has gone")
		return
	}
	t.reach(fallbackMarkerLooked, "finds its marker in its place")
}

func (t *turn) fallbackDiscard() {
	t.removeMarker()
	t.me().mark = 0
	t.reach(fallbackMarkerRemoved, "removes its marker")
}

func (t *turn) fallbackAgain() { t.fallbackBegin("begins again") }

// ---- release

func (t *turn) fallbackRelease() {
	if p := t.me(); t.s.P != p.own {
		t.end("finds that its lock file is lost")
		return
	}
	t.reach(fallbackOwned, "finds its lock file in its place")
}

func (t *turn) fallbackRemoveOwn() { t.aim(t.me().own, "wants to remove its lock file") }

func (t *turn) fallbackRetry() {
	if p := t.me(); t.s.P != p.own {
		t.end("finds that its lock file is lost")
		return
	}
	t.fallbackRemoveOwn()
}

func (t *turn) fallbackEnd() { t.end("has ended") }

// ---- remove: the right, the look, the removal

// aim goes for a file, which the process has open.
func (t *turn) aim(r ref, why string) {
	p := t.me()
	p.aim = r
	if !t.m.has(theRight) {
		t.reach(rightCreated, why+", without a right to it")
		return
	}
	t.reach(rightWritten, why+", and writes the right to that aside")
}

func (t *turn) rightLink() {
	p := t.me()
	f := t.s.at(p.aim)
	if !t.m.has(rightByName) { // one name for all
		t.oneRight()
		return
	}
	if f.right != 0 {
		t.reach(rightThere, "finds that somebody has the right")
		return
	}
	r := t.s.create(t.number(), whole)
	t.s.at(p.aim).right = r
	p.right = r
	t.reach(rightCreated, "links the right to its name")
}

// oneRight is a right whose name is the same for all files: a marker of its own.
func (t *turn) oneRight() {
	p := t.me()
	if t.s.S == 0 { // the sibling is not used here: its name stands for that one
		t.s.S = t.s.create(t.number(), whole)
		p.right = t.s.S
		t.reach(rightCreated, "links the right to its name")
		return
	}
	if t.s.gone(t.s.at(t.s.S).maker) {
		p.sib = t.s.S
		t.reach(rightThere, "finds that a dead process has the right")
		return
	}
	t.fails("finds that somebody has the right")
}

// rightJudge looks who has the right. A dead one's goes first: by the right to do that.
func (t *turn) rightJudge() {
	p := t.me()
	if p.sib != 0 { // one name for all: nothing gives the right to remove a right
		p.sib = 0
		t.s.S = 0
		t.aim(p.aim, "removes the dead one's right")
		return
	}
	r := t.s.at(p.aim).right
	switch {
	case r == 0:
		t.aim(p.aim, "finds that nobody has the right any more")
	case !t.s.gone(t.s.at(r).maker):
		t.fails("finds that its owner is alive")
	case p.above != 0 && p.above != t.base():
		t.fails("finds the third right in a row of dead ones") // which takes three crashes
	default:
		p.above = p.aim
		t.aim(r, "finds that its owner is dead")
	}
}

// base is the file that it all is about: a marker, its own lock file, or a dead one's.
func (t *turn) base() ref {
	p := t.me()
	switch {
	case p.own != 0 && p.mark == 0:
		return p.own
	case p.mark != 0 && (p.own != 0 || t.s.at(p.mark).maker != t.number()):
		return p.mark
	}
	return p.dead
}

// fails gives up the removal. Who has the right is alive, and removes the file.
func (t *turn) fails(why string) {
	p := t.me()
	switch {
	case p.own != 0 && t.base() == p.own:
		p.aim, p.above = 0, 0
		t.reach(fallbackRetries, why+", and tries again")
	case p.own != 0:
		p.aim, p.above, p.mark = 0, 0, 0
		t.reach(fallbackHeld, why+", and leaves it")
	case p.mark != 0 && t.base() == p.dead:
		p.aim, p.above = 0, 0
		t.reach(fallbackDeadMoved, why+", and gives up its marker")
	default:
		t.fallbackBegin(why + ", and looks again later")
	}
}

func (t *turn) rightReread() {
	at := rightRereadMarker // or a right
	switch p := t.me(); {
	case p.above != 0:
	case p.aim == p.dead:
		at = rightRereadDead
	case p.aim == p.own:
		at = rightReread
	}
	t.reach(at, "reads the file again")
}

// stands reports whether the name of p.aim still leads to it.
func (t *turn) stands() bool {
	p := t.me()
	switch {
	case p.above != 0:
		return t.s.at(p.above).right == p.aim
	case p.aim == p.mark:
		return t.s.M == p.aim
	}
	return t.s.P == p.aim
}

func (t *turn) rightLook() {
	if t.stands() {
		t.reach(rightLooked, "finds it in its place")
		return
	}
	t.reach(rightMissed, "finds that it has gone")
}

func (t *turn) rightRemove() {
	p := t.me()
	switch {
	case p.above != 0:
		t.s.at(p.above).right = 0
	case p.aim == p.mark:
		t.removeMarker()
	default:
		t.removeFile()
	}
	t.reach(rightUsed, "removes it by its path")
}

func (t *turn) rightLookOwn() {
	p := t.me()
	switch {
	case p.right == 0 && p.at == rightUsed:
		t.removed("goes on")
	case p.right == 0:
		t.missed("goes on")
	case t.s.at(p.aim).right == p.right || t.s.S == p.right && !t.m.has(rightByName):
		if p.at == rightMissed {
			p.flags |= missed
		}
		t.reach(rightDropped, "finds its right in its place")
	case p.at == rightUsed:
		t.removed("finds its right gone")
	default:
		t.missed("finds its right gone")
	}
}

func (t *turn) rightDrop() {
	p := t.me()
	if t.m.has(rightByName) {
		t.s.at(p.aim).right = 0
	} else {
		t.s.S = 0
	}
	if p.flags&missed != 0 {
		p.flags &^= missed
		t.missed("removes its right")
		return
	}
	t.removed("removes its right")
}

// removed goes on after p.aim has gone by our hand.
func (t *turn) removed(why string) {
	p := t.me()
	p.right = 0
	if up := p.above; up != 0 { // a dead one's right: now for the file itself
		if p.above = 0; up != t.base() {
			p.above = t.base()
		}
		t.aim(up, why)
		return
	}
	aim := p.aim
	p.aim = 0
	switch {
	case p.own != 0 && aim == p.own:
		p.own = 0
		t.reach(fallbackRemoved, why)
	case p.own != 0:
		p.mark = 0
		t.reach(fallbackHeld, why)
	case aim == p.mark:
		p.mark = 0
		t.reach(fallbackMarkerAgain, why)
	default:
		t.reach(fallbackDeadRemoved, why)
	}
}

// missed goes on after it was found gone.
func (t *turn) missed(why string) {
	p := t.me()
	p.right = 0
	switch {
	case p.above != 0: // a right
		t.removed(why)
	case p.own == 0 && p.aim == p.mark:
		p.aim, p.mark = 0, 0
		t.reach(fallbackMarkerAgain, why)
	default:
		t.fails(why)
	}
}
