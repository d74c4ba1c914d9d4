package model

// ---- held

// clearMarkers is hold: who has the lock removes a marker that the dead have left.
func (t *turn) clearMarkers() {
	if t.leaveTurnstile(turnstileLeft) {
		return
	}
	if t.s.M != 0 && t.m.has(clearMarkers) {
		t.me().mark = t.s.M
		t.reach(markerFound, "has the lock, and opens the marker that is there")
		return
	}
	t.reach(held, "has the lock")
}

// hold is the time between Acquire and Release.
func (t *turn) hold() {
	p := t.me()
	if t.m.Part == queueHalf {
		t.reach(ownUnlocked, "has the lock file no more")
		return
	}
	if t.role() == Writer || t.role() == TryWriter || t.role() == Fallback {
		t.learn()
		if t.m.Fence {
			if t.s.P == p.own {
				t.reach(fenceAsked, "finds its lock file in its place, and asks for the fence")
			} else {
				t.reach(holding, "gets no fence: its lock file has gone")
			}
			return
		}
	}
	t.release()
}

// learn is Predecessor: who has the lock learns of a death before.
func (t *turn) learn() {
	s := &t.s
	for _, r := range t.m.Roles {
		if !r.participant() { // it may have removed the claim that told
			s.unheard = 0
		}
	}
	told := s.S != 0 && s.at(s.S).tells != 0 || // of this one, or of one who came later
		t.me().flags&knows != 0
	if s.unheard != 0 && !told && s.left[siblingRemoved] == t.m.Budget[siblingRemoved] && s.left[siblingReplaced] == t.m.Budget[siblingReplaced] {
		t.breaks(deathUnheard)
	}
	s.unheard = 0
}

// readFence opens the sibling at the path, and reads the fence in it.
func (t *turn) readFence() {
	p := t.me()
	if t.s.S == 0 {
		t.s.S = t.s.create(t.number(), marked)
	}
	p.dead = t.s.S
	t.reach(fenceRead, "reads the fence in the sibling")
}

// raiseFence writes the greater of the next number and the time of day. Time goes on with
// each fence; setBack is a clock that shows the beginning.
func (t *turn) raiseFence() {
	give := func(now uint8, does string) {
		p, f := t.me(), t.s.at(t.me().dead)
		next := now
		if t.m.has(nextNumber) {
			next = max(f.fence+1, now)
		}
		if next <= t.s.fence {
			t.breaks(fenceBack)
		}
		f.fence = next
		f.is |= marked
		t.s.fence = max(t.s.fence, next)
		p.dead = 0
		t.reach(holding, does)
	}
	now := uint8(1)
	if t.m.has(timeOfDay) {
		now = t.s.fence + 1
	}
	if t.s.left[setBack] > 0 {
		t.s.left[setBack]--
		give(1, "writes its fence, as the clock was set back")
	}
	give(now, "writes its fence")
}

// ---- release

func (t *turn) release() {
	p := t.me()
	if t.m.has(unlockLast) {
		t.look("")
		return
	}
	// Without that order: the locks go first.
	t.s.unlock(p.own, t.i)
	t.s.unlock(p.sib, t.i)
	t.look("drops its locks, and ")
}

func (t *turn) look(first string) {
	p := t.me()
	if t.s.P == p.own || !t.m.has(lookOwn) {
		t.reach(ownershipChecked, first+"finds its lock file in its place")
		return
	}
	p.flags |= lost
	t.reach(lockFileLeft, first+"finds that its lock file is lost")
}

func (t *turn) removeOwn() {
	p := t.me()
	if t.role().reads() && t.m.has(leaveAlone) {
		t.s.unlock(p.own, t.i)
		t.reach(sharedDropped, "drops its shared lock")
		return
	}
	if t.s.left[failures] > 0 {
		t.s.left[failures]--
		t.reach(removalFails, "fails to remove the lock file")
	}
	t.removeFile()
	t.reach(lockFileRemoved, "removes the lock file")
}

func (t *turn) sayReleased() {
	p := t.me()
	if t.m.has(saysReleased) {
		t.s.at(p.own).is |= released
	}
	t.reach(lockFileLeft, "has the claim say that it was released")
}

// tellEnd writes into the sibling that the lock was released. Readers, and who lost it, don't.
func (t *turn) tellEnd() {
	p := t.me()
	if p.flags&lost == 0 && !t.role().reads() {
		sib := p.sib
		if sib == 0 || sib != t.s.S {
			sib = t.s.S
		}
		if sib != 0 {
			t.s.at(sib).tells = 0
		}
	}
	t.reach(endTold, "writes down its end")
}

func (t *turn) unlockOwn() {
	p := t.me()
	t.s.unlock(p.own, t.i)
	t.reach(ownUnlocked, "drops its own lock")
}

// ---- tidy

// tidy is for a writer who leaves. With the sibling's lock, it need not open it anew.
func (t *turn) tidy() {
	p := t.me()
	if !t.m.Tidy || t.role().reads() || p.sib == 0 {
		t.unlockSibling()
		return
	}
	t.tidySibling()
}

func (t *turn) tidySibling() {
	p := t.me()
	for i := range t.m.Roles {
		if q := &t.s.proc[i]; (i != t.i && q.sib == p.sib || q.behind == p.sib) && t.m.has(openElsewhere) {
			t.reach(siblingStays, "leaves the sibling, which others have open")
			return
		}
	}
	if t.s.at(p.sib).is&marked == 0 {
		t.reach(siblingStays, "leaves the sibling, which nothing shows to be holdfast's")
		return
	}
	if t.s.at(p.sib).tells != 0 && t.m.has(keepDeath) {
		t.reach(siblingStays, "leaves the sibling, which tells of a death")
		return
	}
	if t.s.at(p.sib).fence != 0 && t.m.has(keepFence) {
		t.reach(siblingStays, "leaves the sibling, which has a fence")
		return
	}
	t.reach(tidyAlone, "finds that nobody else has the sibling open")
}

func (t *turn) tidyLook() {
	if (t.s.P != 0 || t.m.Part == queueHalf) && t.m.has(noLockFile) {
		t.reach(siblingStays, "leaves the sibling, as the lock file is there")
		if t.m.Part != queueHalf {
			return
		}
	}
	t.reach(siblingLooked, "finds no lock file")
}

func (t *turn) tidyLookSibling() {
	if t.s.S != t.me().sib && t.m.has(lookTidy) {
		t.reach(siblingStays, "finds that the sibling has moved")
		return
	}
	t.reach(siblingIdle, "finds the sibling in its place")
}

func (t *turn) removeSibling() {
	for i := range t.m.Roles {
		if i == t.i || t.s.S == 0 {
			continue
		}
		if q := &t.s.proc[i]; q.sib == t.s.S && t.s.has(q.sib, i) && q.at != siblingLocked && q.at != siblingUnlocked {
			t.breaks(removesSibling)
		}
	}
	t.s.S = 0
	t.reach(siblingGone, "removes the sibling")
}

func (t *turn) unlockSibling() {
	p := t.me()
	alone := p.sib != 0 && !t.role().reads() // and so has tidied up
	t.s.unlock(p.sib, t.i)
	p.sib, p.own = 0, 0 // its own file is closed last, which nobody waits for
	if t.m.Tidy && !alone && p.flags&tidied == 0 {
		p.flags |= tidied
		t.reach(tidiesUp, "unlocks the sibling, and looks whether it can go")
		return
	}
	t.reach(siblingUnlocked, "unlocks the sibling")
}

// after is what goes on in the background.
func (t *turn) after() {
	p := t.me()
	switch {
	case p.flags&clears != 0 && t.m.has(looksAgainForReaders) && !t.m.Hooks:
		p.flags &^= clears
		t.reach(looksAgain, "looks again whether the readers' file can go")
	default:
		t.end("has ended")
	}
}

func (t *turn) end(why string) {
	t.s.unlockAll(t.i)
	*t.me() = t.me().after()
	t.reach(done, why)
}

func (t *turn) tidyOpen() {
	if (t.s.P != 0 || t.m.Part == queueHalf) || t.s.S == 0 {
		t.reach(siblingUnlocked, "has nothing to tidy up")
		if t.m.Part != queueHalf || t.s.S == 0 {
			return
		}
	}
	t.me().sib = t.s.S
	t.reach(tidiesUpOpened, "opens the sibling")
}

func (t *turn) tidyLock() {
	p := t.me()
	if t.s.free(p.sib, t.i, true) {
		t.s.lock(p.sib, t.i, true)
		t.tidySibling()
		return
	}
	p.sib = 0
	t.reach(siblingUnlocked, "leaves the sibling, which is locked")
}

// ---- a reader leaves

// tryAlone asks for the exclusive lock. If others have it shared, the last of them does the
// same. If somebody has it exclusively, they only look.
func (t *turn) tryAlone() {
	p := t.me()
	switch {
	case !t.m.has(lockLast), t.s.free(p.own, t.i, true):
		if t.m.has(lockLast) {
			t.s.lock(p.own, t.i, true)
		}
		t.reach(alone, "has the file for itself")
	case t.s.free(p.own, t.i, false):
		t.s.lock(p.own, t.i, false)
		t.reach(meetsOthers, "finds other readers")
	default:
		p.flags |= clears
		t.reach(lockFileLeft, "finds the file locked, and leaves it")
		t.reach(sharedDropped, "finds the file locked, and tries again")
	}
}

func (t *turn) othersLeft() {
	p := t.me()
	t.s.unlock(p.own, t.i)
	p.flags |= clears
	t.reach(lockFileLeft, "leaves the file to the others")
}

func (t *turn) lookAlone() {
	p := t.me()
	if t.s.P == p.own || !t.m.has(lookLast) {
		t.reach(aloneLooked, "finds the readers' file in its place")
		return
	}
	t.reach(lockFileLeft, "finds that the readers' file has gone")
}

func (t *turn) removeAlone() {
	t.removeFile()
	t.reach(lockFileRemoved, "removes the lock file")
}

// clearSoon.
func (t *turn) lookForReaders() {
	if t.s.P == 0 {
		t.after()
		return
	}
	t.me().dead = t.s.P
	t.reach(looksAgainOpened, "opens the lock file again")
}

func (t *turn) lockReaders() {
	p := t.me()
	if t.s.free(p.dead, t.i, true) {
		t.s.lock(p.dead, t.i, true)
		t.reach(looksAgainAlone, "has it for itself")
		return
	}
	if t.s.at(p.dead).ex == 0 {
		p.dead = 0
		t.after()
	}
	// Else it waits for those who only look.
	if t.s.P != p.dead {
		p.dead = 0
		t.after()
	}
}

// isReadersFile is what clear removes: a readers' file, or one whose maker died.
func (t *turn) isReadersFile(r ref) bool {
	is := t.s.at(r).is
	return is&(whole|shared|foreign|released) == whole|shared || is&(whole|marked) == marked
}

func (t *turn) checkReaders() {
	p := t.me()
	if t.s.P == p.dead && t.isReadersFile(p.dead) {
		t.reach(looksAgainLooked, "finds the readers' file in its place")
		return
	}
	t.s.unlock(p.dead, t.i)
	p.dead = 0
	t.after()
}

func (t *turn) clearReaders() {
	p := t.me()
	t.removeFile()
	t.s.unlock(p.dead, t.i)
	p.dead = 0
	t.reach(siblingUnlocked, "removes the readers' file")
}

// ---- a wait for the lock file that was left behind

func (t *turn) giveBackFile() {
	p := t.me()
	if t.s.free(p.dead, t.i, t.exclusive()) {
		t.s.lock(p.dead, t.i, t.exclusive())
		t.reach(leftAlone, "is granted the lock file for nobody")
	}
}

// giveBackLook lets go as a reader who leaves, and then clears what is to be cleared.
func (t *turn) giveBackLook() {
	p := t.me()
	if t.role().reads() {
		p.own, p.dead = p.dead, 0
		t.s.unlock(p.own, t.i)
		t.reach(sharedDropped, "drops the shared lock")
		return
	}
	if t.m.has(clearGivenBack) && t.s.P == p.dead && t.isReadersFile(p.dead) {
		t.reach(leftLooked, "finds a readers' file in its place")
		return
	}
	t.giveUp("lets go")
}

func (t *turn) giveBackRemove() {
	t.removeFile()
	t.giveUp("removes the readers' file, and lets go")
}

// ---- ends

func (t *turn) childEnds() {
	t.s.unlockAll(t.i)
	*t.me() = proc{}
	t.reach(dead, "has no child any more")
}

func (t *turn) otherEnds() {
	*t.me() = proc{}
	t.reach(dead, "ends, as the program that it has become")
}
