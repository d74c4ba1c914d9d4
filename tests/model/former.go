package model

// The former protocol: the proof of a holder's life was the kernel lock on the sibling, a
// file that it did not own, and files were removed and replaced by path after a look. A claim
// named the sibling that it was made under.
const (
	formerOut place = otherPlaces + iota
	formerOpened
	formerLocked
	formerChecked
	formerCreated
	formerWritten
	formerDiscards
	formerJoined
	formerFound
	formerJudged
	formerReread
	formerHolds
	formerLooked
	formerLeaves
	formerAlone

	formerPlaces
)

// FormerHoles are what was found in it by attack, after every test was green.
var FormerHoles = []Guard{
	{"former-S1", "first reader, who is named, is killed, second reads on, sibling removed: a writer gets in", joint, nil,
		Machine{Roles: []Role("RRW"), First: "AAAAAABBBBBB", Budget: may(crash, 1, rmS, 1)}, twoHolders},
	{"former-S2", "sibling replaced: who discards its file removes another's by the path", joint, nil,
		Machine{Roles: []Role("WWW"), First: "AAAA-BBBBBBAAB", Budget: may(mvS, 1, rmS, 1)}, twoHolders},
}

func addFormer() {
	for at, s := range map[place]step{
		formerOut:      {name: "out", do: (*turn).formerOpen},
		formerOpened:   {name: "sibling opened", do: (*turn).formerLock},
		formerLocked:   {name: "sibling locked", do: (*turn).formerCheck},
		formerChecked:  {name: "sibling checked", do: (*turn).formerCreate},
		formerCreated:  {name: "lock file created", do: (*turn).formerWrite},
		formerWritten:  {name: "claim written", do: (*turn).formerConfirm, relies: true},
		formerDiscards: {name: "own claim looked at", do: (*turn).formerDiscard},
		formerJoined:   {name: "readers joined", do: (*turn).formerConfirmJoin},
		formerFound:    {name: "claim read", do: (*turn).formerJudge},
		formerJudged:   {name: "claim judged dead", do: (*turn).formerLookAgain},
		formerReread:   {name: "dead claim read again", do: (*turn).formerRename},
		formerHolds:    {name: "held", do: (*turn).formerRelease, relies: true, holds: true},
		formerLooked:   {name: "ownership checked", do: (*turn).formerRemove, relies: true},
		formerLeaves:   {name: "shared lock dropped", do: (*turn).formerLast},
		formerAlone:    {name: "found alone", do: (*turn).formerRemove},
	} {
		steps[at] = s
	}
}

func (t *turn) formerOpen() {
	if t.s.S == 0 {
		t.s.S = t.s.create(t.number(), 0)
	}
	*t.me() = proc{sib: t.s.S}
	t.reach(formerOpened, "opens the sibling")
}

func (t *turn) formerLock() {
	if p := t.me(); t.s.free(p.sib, t.i, t.exclusive()) {
		t.s.lock(p.sib, t.i, t.exclusive())
		t.reach(formerLocked, "locks the sibling")
	}
}

// formerBegin lets go of everything, and begins again.
func (t *turn) formerBegin(why string) {
	t.s.unlockAll(t.i)
	*t.me() = proc{}
	t.reach(formerOut, why)
}

func (t *turn) formerCheck() {
	if t.s.S != t.me().sib {
		t.formerBegin("finds that the sibling has moved")
		return
	}
	t.reach(formerChecked, "finds the sibling in its place")
}

func (t *turn) formerCreate() {
	p := t.me()
	if t.s.P != 0 {
		p.dead = t.s.P
		t.reach(formerFound, "finds a lock file there, and reads it")
		return
	}
	t.s.P = t.formerFile(marked)
	p.own = t.s.P
	t.reach(formerCreated, "creates the lock file")
}

func (t *turn) formerFile(is content) ref {
	if t.role().reads() {
		is |= shared
	}
	r := t.s.create(t.number(), is)
	t.s.at(r).under = t.me().sib
	return r
}

func (t *turn) formerWrite() {
	t.s.at(t.me().own).is |= whole
	t.reach(formerWritten, "writes its claim")
}

func (t *turn) formerConfirm() {
	p := t.me()
	switch {
	case t.s.S == p.sib:
		t.reach(formerHolds, "finds the sibling still in its place, and has the lock")
	case t.s.P == p.own:
		t.reach(formerDiscards, "finds that the sibling was replaced, and its own claim in the lock file")
	default:
		t.formerBegin("finds that the sibling was replaced, and another's claim in the lock file")
	}
}

func (t *turn) formerConfirmJoin() {
	if t.s.S == t.me().sib {
		t.reach(formerHolds, "finds the sibling still in its place, and joins")
		return
	}
	t.formerBegin("finds that the sibling was replaced")
}

func (t *turn) formerDiscard() {
	t.removeFile()
	t.formerBegin("removes the lock file by its path")
}

func (t *turn) formerJudge() {
	p := t.me()
	f := t.s.at(p.dead)
	here := f.under == p.sib
	switch {
	case f.is&(whole|shared) == whole|shared && here && t.role().reads():
		p.own, p.dead = p.dead, 0
		t.reach(formerJoined, "finds a readers' file of this sibling")
	case f.is&whole == 0:
		p.flags |= knows
		t.reach(formerJudged, "judges it dead: died while claiming")
	case here && t.exclusive():
		t.reach(formerJudged, "judges it dead: kernel lock free")
	case t.s.gone(f.maker):
		t.reach(formerJudged, "judges it dead: process gone")
	default:
		t.formerBegin("finds its process alive, and waits")
	}
}

func (t *turn) formerLookAgain() {
	p := t.me()
	if t.s.M != 0 && !t.s.gone(t.s.at(t.s.M).maker) {
		return // who has the marker is reclaiming
	}
	half := p.flags&knows != 0
	if t.s.P != p.dead || half != (t.s.at(p.dead).is&whole == 0) || t.s.S != p.sib {
		t.formerBegin("finds that the claim has changed, or the sibling moved")
		return
	}
	t.s.M = t.s.create(t.number(), whole)
	t.reach(formerReread, "makes the marker, reads the same dead claim again, and finds the sibling in its place")
}

func (t *turn) formerRename() {
	p := t.me()
	if t.s.P != 0 && t.m.isRelied(&t.s, t.s.P, t.i) {
		t.breaks(removesLiving)
	}
	t.s.P, t.s.M = t.formerFile(marked|whole), 0
	p.own, p.dead = t.s.P, 0
	t.reach(formerHolds, "renames its own claim over the lock file, and has the lock")
}

func (t *turn) formerRelease() {
	p := t.me()
	if t.role().reads() {
		t.s.unlock(p.sib, t.i)
		t.reach(formerLeaves, "drops its shared lock on the sibling")
		return
	}
	if t.s.P == p.own {
		t.reach(formerLooked, "finds its own claim in the lock file")
		return
	}
	t.end("finds another's claim, and lets go")
}

func (t *turn) formerLast() {
	p := t.me()
	if t.s.free(p.sib, t.i, true) && t.s.P != 0 && t.s.at(t.s.P).under == p.sib {
		t.s.lock(p.sib, t.i, true)
		t.reach(formerAlone, "has the sibling for itself")
		return
	}
	t.end("leaves the file to the others")
}

func (t *turn) formerRemove() {
	t.removeFile()
	t.end("removes the lock file by its path, and lets go")
}
