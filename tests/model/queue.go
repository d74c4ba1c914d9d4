package model

// ---- 1: takeSibling

func (t *turn) openSibling() {
	p := t.me()
	if t.m.Part == lockFileHalf {
		t.createFile()
		return
	}
	if t.s.S == 0 {
		t.s.S = t.s.create(t.number(), marked)
	}
	p.sib, p.own, p.dead, p.mark = t.s.S, 0, 0, 0
	t.reach(siblingOpened, "opens the sibling")
}

func (t *turn) exclusive() bool { return !t.role().reads() }

// lockSibling is tryToPass for those who wait, and passTurnstile for those who don't. A try for
// a writer's lock asks nobody; nor does who has a wait of its own at the turnstile, which it
// knows to be stuck (isStuck). A machine without turnstiles has all orders that there can be.
func (t *turn) lockSibling() {
	p := t.me()
	if !t.m.Turnstile || t.role() == TryWriter || p.line != 0 {
		t.passSibling()
		return
	}
	taken := t.s.atTurnstile(p.sib) >= 0
	t.comes()
	switch {
	case !t.m.has(lookTurnstile):
		t.reach(turnstileLooked, "does not look at the turnstile")
	case !taken:
		t.reach(turnstileLooked, "finds nobody at the turnstile")
	case t.role().tries() && t.m.has(triesLook):
		free := t.s.free(p.sib, t.i, true)
		if !t.m.Hooks || !free { // somebody paused at a hook is slow
			t.giveUp("finds somebody at the turnstile, and gives up")
		}
		if free && (t.overtakesTurnstile() || t.m.Hooks) {
			t.getsSibling("overtakes whoever is at the turnstile, and locks the sibling")
		}
	case t.role().tries():
		t.reach(turnstileLooked, "does not care who is at the turnstile")
	default:
		t.reach(turnstileBusy, "finds somebody at the turnstile")
	}
}

// passSibling is a try for the sibling's lock without the turnstile.
func (t *turn) passSibling() {
	p := t.me()
	switch {
	case t.s.free(p.sib, t.i, t.exclusive()):
		t.getsSibling("locks the sibling")
	case t.role().tries():
		t.giveUp("finds the sibling locked, and gives up")
	case p.at == turnstileLooked:
		t.reach(turnstileBusy, "finds the sibling locked")
	default:
		t.waitsForSibling()
	}
}

// waitsForSibling is siblingWatch, for a wait at the sibling's lock.
func (t *turn) waitsForSibling() {
	p := t.me()
	if t.s.S != p.sib && t.m.has(lookWhileWaiting) {
		t.openAnew("sees that the sibling has moved")
	}
	t.cancels("is cancelled, and leaves its wait at the sibling behind")
}

// hasWaited reports whether a process is past the hook at which it begins to wait for this
// sibling.
func (t *turn) hasWaited() bool {
	at := steps[t.was.at]
	return !t.m.Hooks || at.waits != "" && !at.hook && t.was.sib == t.me().sib
}

// overtakesTurnstile is siblingWatch.check, and impatient.lockSibling, for a lock that nobody
// takes though somebody is at the turnstile.
func (t *turn) overtakesTurnstile() bool {
	at := t.s.atTurnstile(t.me().sib)
	return t.m.has(overtakeTurnstile) && (t.m.Slow || at >= 0 && t.s.proc[at].flags&stopped != 0)
}

// ---- the turnstile

func (t *turn) takeTurnstile() {
	p := t.me()
	if t.s.atTurnstile(p.sib) < 0 {
		t.goesBefore()
		t.getsTurnstile("takes the turnstile")
		return
	}
	p.line = t.s.lineUp(p.sib)
	t.reach(inLine, "stands in line at the turnstile")
}

// standInLine is a wait in the kernel, which serves those who wait in their order. Whoever
// comes while the turnstile is free, and the first in line is only being woken, is faster.
func (t *turn) standInLine() {
	p := t.me()
	if t.s.atTurnstile(p.sib) < 0 && (p.line == 1 || t.m.Hooks) {
		t.s.leaveLine(t.i)
		t.getsTurnstile("gets the turnstile")
		return
	}
	if t.s.S != p.sib && t.m.has(lookWhileWaiting) {
		t.openAnew("sees that the sibling has moved")
	}
	if t.hasWaited() && t.overtakesTurnstile() && t.s.S == p.sib && t.s.free(p.sib, t.i, true) {
		p.leaveBehind()
		t.getsSibling("overtakes whoever is at the turnstile, and locks the sibling")
		return
	}
	t.cancels("is cancelled, and leaves its wait at the turnstile behind")
}

func (t *turn) getsTurnstile(does string) {
	p := t.me()
	if !t.m.has(takeTurnstile) {
		t.reach(turnstileHad, "waits at the sibling")
		return
	}
	p.turn = p.sib
	t.reach(turnstileHad, does)
}

// lockFromTurnstile is a wait in the kernel for the sibling's lock, by who has the turnstile.
func (t *turn) lockFromTurnstile() {
	p := t.me()
	if !t.s.free(p.sib, t.i, t.exclusive()) {
		t.waitsForSibling()
		return
	}
	if t.m.Order {
		p.flags |= waited
	}
	if !t.m.has(keepTurnstile) {
		p.turn = 0
	}
	t.getsSibling("locks the sibling")
}

func (t *turn) getsSibling(does string) {
	t.s.lock(t.me().sib, t.i, t.exclusive())
	if t.me().ahead != 0 {
		t.breaks(passed)
	}
	t.served()
	t.reach(siblingLocked, does)
}

// leaveTurnstile reports whether it has let the next one come, which is a step of its own.
func (t *turn) leaveTurnstile(at place) bool {
	p := t.me()
	had := p.turn != 0
	p.flags &^= waited
	if p.turn = 0; had {
		t.reach(at, "leaves the turnstile")
	}
	return had
}

// atTurnstile returns who has the turnstile of a sibling; -1: nobody.
func (s *state) atTurnstile(r ref) int {
	for i := range s.proc {
		if s.proc[i].turn == r {
			return i
		}
	}
	return -1
}

// inLineAt returns the sibling at whose turnstile a process, or a wait that it has left behind,
// stands in line; 0: none.
func (p *proc) inLineAt() ref {
	switch {
	case p.line == 0:
		return 0
	case p.at == inLine:
		return p.sib
	}
	return p.behind
}

// lineUp returns the last place in line.
func (s *state) lineUp(r ref) (place uint8) {
	for i := range s.proc {
		if s.proc[i].inLineAt() == r {
			place = max(place, s.proc[i].line)
		}
	}
	return place + 1
}

func (s *state) leaveLine(i int) {
	was := s.proc[i].line
	if was == 0 {
		return
	}
	of := s.proc[i].inLineAt()
	for k := range s.proc {
		if q := &s.proc[k]; q.line > was && q.inLineAt() == of {
			q.line--
		}
	}
	s.proc[i].line = 0
}

// leaveBehind has the wait in the kernel go on without its process. (A wait for a sibling that
// has moved is left, too, and is in nobody's way.)
func (p *proc) leaveBehind() {
	if p.behind == 0 {
		p.behind = p.sib
	}
}

// grant ends a wait in the kernel that process i has left behind, if it is granted now: it lets
// go at once.
func (s *state) grant(i int, exclusive, anyPlace bool) bool {
	p := &s.proc[i]
	stands := p.line != 0 && p.at != inLine // it is the wait that stands in line
	switch {
	case p.behind == 0, p.flags&stopped != 0: // the kernel has woken its thread, to stop it
		return false
	case !stands && !s.free(p.behind, i, exclusive):
		return false
	case stands && (s.atTurnstile(p.behind) >= 0 || p.line != 1 && !anyPlace):
		return false
	}
	if stands {
		s.leaveLine(i)
	}
	p.behind = 0
	return true
}

// ---- the order

// comes notes who is to be served before a process that comes to the sibling: who waits at the
// sibling itself, and has the turnstile. Those in line there are served by the kernel in their
// order.
func (t *turn) comes() {
	if !t.m.Order || t.role() == TryWriter {
		return
	}
	me := t.me()
	for i := range t.m.Roles {
		if p := &t.s.proc[i]; i != t.i && p.sib == me.sib && p.at == turnstileHad {
			me.ahead |= 1 << i
		}
	}
}

// goesBefore is somebody who comes while the turnstile is free, though others stand in line: the
// first of them is being woken. That must not be before the next holder, if that one has waited,
// has made its lock file: whoever has released, and comes back at once, stands behind all.
func (t *turn) goesBefore() {
	handed, line := false, false
	for i := range t.m.Roles {
		p := &t.s.proc[i]
		handed = handed || p.flags&waited != 0
		line = line || p.at == inLine && p.sib == t.me().sib
	}
	if handed && line {
		t.breaks(passed)
	}
}

// served says that nobody waits for this process any more.
func (t *turn) served() {
	for i := range t.s.proc {
		t.s.proc[i].ahead &^= 1 << t.i
	}
}

// ---- the look at the sibling that is locked

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
	t.forgets(0)
	t.reach(out, why)
}

// forgets leaves of a process nothing but flags, and the wait that it has left behind.
func (t *turn) forgets(but flags) {
	t.served()
	if p := t.me(); p.at == inLine && p.behind == 0 {
		t.s.leaveLine(t.i)
	}
	p := t.me()
	now := p.after()
	now.flags = p.flags &^ (but | waited)
	*p = now
}

// after is what is left of a process when it is out: a wait that goes on.
func (p proc) after() proc { return proc{at: out, behind: p.behind, line: p.line} }

// again is errMoved: another look at once. The queue may have moved as well.
func (t *turn) again() { t.moved("begins again") }

func (t *turn) moved(why string) {
	p := t.me()
	for _, r := range []ref{p.own, p.dead, p.mark} {
		if r != 0 {
			t.s.unlock(r, t.i)
		}
	}
	p.own, p.dead, p.mark, p.turn = 0, 0, 0, 0
	p.flags &^= waited
	if p.sib == 0 || t.s.S != p.sib {
		t.s.unlock(p.sib, t.i)
		t.openAnew(why + ", at the sibling")
		return
	}
	t.reach(anotherRound, why)
}

// giveUp is for a try, and for who can't tell whether a holder lives.
func (t *turn) giveUp(why string) {
	t.s.unlockAll(t.i)
	t.forgets(clears)
	t.reach(failed, why)
}

// cancels ends an Acquire that waits for the sibling. Its wait stays behind, and in line, but
// not at the turnstile.
func (t *turn) cancels(does string) {
	if t.s.left[cancels] > 0 && !t.role().tries() && t.hasWaited() {
		t.s.left[cancels]--
		t.me().leaveBehind()
		t.giveUp(does)
	}
}
