package model

// ---- 1: takeSibling

func (t *turn) openSibling() {
	p := t.me()
	if t.s.S == 0 {
		t.s.S = t.s.create(t.number(), 0)
	}
	p.sib, p.own, p.dead, p.mark = t.s.S, 0, 0, 0
	t.reach(siblingOpened, "opens the sibling")
}

func (t *turn) exclusive() bool { return !t.role().reads() }

func (t *turn) lockSibling() {
	p := t.me()
	if t.s.free(p.sib, t.i, t.exclusive()) {
		t.s.lock(p.sib, t.i, t.exclusive())
		t.reach(siblingLocked, "locks the sibling")
		return
	}
	if t.role().tries() {
		t.giveUp("finds the sibling locked, and gives up")
	}
	if t.s.S != p.sib && t.m.has(lookWhileWaiting) {
		t.openAnew("sees that the sibling has moved")
	}
	if (t.m.Queue || t.m.Slow) && t.overtakes() {
		t.me().sib = 0
		t.reach(anotherRound, "overtakes those who have the sibling's lock alone")
	}
	t.cancels(leftAtSibling)
}

// overtakes is siblingWatch: nobody has the lock file's own lock, and those who have the
// sibling's have no other.
func (t *turn) overtakes() bool {
	s := &t.s
	if s.P != 0 && !s.free(s.P, t.i, true) {
		return false
	}
	if s.S == 0 {
		return false
	}
	for i := range t.m.Roles {
		if !s.has(s.S, i) {
			continue
		}
		if s.proc[i].flags&stopped == 0 && !t.m.Slow {
			return false
		}
		for r := range s.file {
			if ref(r+1) != s.S && s.has(ref(r+1), i) && t.m.has(overtakeOnlyIdle) {
				return false
			}
		}
	}
	return true
}

func (t *turn) checkSibling() {
	p := t.me()
	if t.s.S != p.sib && t.m.has(lookAfterWaiting) {
		t.s.unlock(p.sib, t.i)
		t.openAnew("finds that the sibling has moved, and lets go")
		return
	}
	t.reach(siblingChecked, "finds the sibling in its place")
}

func (t *turn) openAnew(why string) {
	*t.me() = proc{flags: t.me().flags}
	t.reach(out, why)
}

// again is errMoved: another look at once. The queue may have moved as well.
func (t *turn) again() { t.moved("begins again") }

func (t *turn) moved(why string) {
	p := t.me()
	for _, r := range []ref{p.own, p.dead, p.mark} {
		if r != 0 {
			t.s.unlock(r, t.i)
		}
	}
	p.own, p.dead, p.mark = 0, 0, 0
	if p.sib == 0 || t.s.S != p.sib {
		t.s.unlock(p.sib, t.i)
		t.openAnew(why + ", at the sibling")
		return
	}
	t.reach(anotherRound, why)
}

// giveUp is for a try, and for who can't tell whether a holder lives.
func (t *turn) giveUp(why string) {
	p := t.me()
	t.s.unlockAll(t.i)
	*p = proc{flags: p.flags &^ clears}
	t.reach(failed, why)
}

func (t *turn) cancels(to place) {
	if t.s.left[cancels] > 0 && !t.role().tries() {
		t.s.left[cancels]--
		t.reach(to, "is cancelled, and leaves its wait behind")
	}
}
