package model

// ---- 2: create
//
// A process that has waited gives its prepared file a name instead: by one act, link(2), it does
// what stands here as four, from createFile to writeClaim. link(2) fails where createFile finds a
// file. So each of its runs is one of the model's in which nobody comes between the four, and
// there is no further state to explore. The replay has no prepared files.

func (t *turn) createFile() {
	p := t.me()
	p.own, p.dead, p.mark = 0, 0, 0
	if t.m.Part == queueHalf {
		t.askLockFile()
		return
	}
	if t.s.P != 0 {
		t.reach(lockFileThere, "finds a lock file there")
		return
	}
	is := content(0)
	if t.m.has(theMark) {
		is = marked
	}
	if t.role().reads() {
		is |= shared
	}
	t.s.P = t.s.create(t.number(), is)
	p.own = t.s.P
	t.reach(lockFileCreated, "creates the lock file")
}

func (t *turn) lockCreated() {
	p := t.me()
	if !t.m.has(lockCreated) {
		t.reach(ownLocked, "does not lock its file")
		return
	}
	if t.s.free(p.own, t.i, t.exclusive()) {
		t.s.lock(p.own, t.i, t.exclusive())
		t.reach(ownLocked, "locks its file")
		return
	}
	if t.role().tries() && t.staysAt(t.s.P, p.own) || !t.m.has(creatorWaits) {
		t.reach(abandons, "finds its file locked, and abandons it")
		return
	}
	if t.s.P != p.own {
		t.moved("sees that its file has gone")
	}
}

func (t *turn) checkCreated() {
	p := t.me()
	if t.s.P != p.own && t.m.has(lookCreated) {
		t.moved("finds that its file has gone")
		return
	}
	t.reach(lockFileChecked, "finds its file in its place")
}

func (t *turn) writeClaim() {
	t.s.at(t.me().own).is |= whole
	t.reach(claimWritten, "writes its claim")
}

// abandon is for a file that was made and is not used.
func (t *turn) abandon() {
	p := t.me()
	if !t.m.has(creatorWaits) {
		t.giveUp("leaves its file behind, and gives up")
		return
	}
	if t.s.free(p.own, t.i, true) {
		t.s.lock(p.own, t.i, true)
		t.reach(abandonsAlone, "locks the file that it abandons")
	}
}

func (t *turn) abandonLook() {
	if t.s.P == t.me().own {
		t.reach(abandonsLooked, "finds the abandoned file in its place")
		return
	}
	t.giveUp("finds the abandoned file gone, and gives up")
}

func (t *turn) abandonRemove() {
	t.removeFile()
	t.giveUp("removes the abandoned file, and gives up")
}

// ---- 3: takeOver

func (t *turn) openFound() {
	if t.leaveTurnstile(lockFileThere) {
		return
	}
	if t.m.Part == queueHalf {
		t.waitLockFile()
		return
	}
	if t.s.P == 0 {
		t.moved("finds the lock file gone")
		return
	}
	t.me().dead = t.s.P
	t.reach(fileFound, "opens the lock file")
}

func (t *turn) lockFound() {
	p := t.me()
	if !t.m.has(lockFound) {
		t.reach(foundLocked, "does not lock it")
		return
	}
	if t.role().reads() && !t.m.has(lockJoined) {
		t.reach(foundLocked, "does not lock it")
		return
	}
	if t.s.free(p.dead, t.i, t.exclusive()) {
		t.s.lock(p.dead, t.i, t.exclusive())
		t.reach(foundLocked, "locks it")
		return
	}
	t.waitsForFile("finds it locked")
}

// staysAt reports whether a try may give up, which looks for that whether the file has moved.
// (Somebody who does not pause may be too late for that.)
func (t *turn) staysAt(path, file ref) bool { return !t.m.Hooks || path == file }

// waitsForFile is lockOwn: who waits looks whether the path still leads to the file.
func (t *turn) waitsForFile(why string) {
	p := t.me()
	if t.role().tries() && t.staysAt(t.s.P, p.dead) {
		t.giveUp(why + ", and gives up")
	}
	if t.s.P != p.dead {
		t.moved("sees that the lock file has moved")
	}
	if t.s.left[cancels] > 0 && !t.role().tries() && !t.m.Hooks {
		t.s.left[cancels]--
		t.reach(leftAtFile, "is cancelled, and leaves its wait behind")
	}
}

func (t *turn) checkFound() {
	if t.s.P != t.me().dead && t.m.has(lookFound) {
		t.moved("finds that the lock file has moved")
		return
	}
	t.reach(foundStands, "finds it in its place")
}

func (t *turn) readFound() {
	p := t.me()
	is := t.s.at(p.dead).is
	switch {
	case !t.role().reads():
		t.judge()
	case is&(whole|shared|released|foreign) == whole|shared:
		p.own, p.dead = p.dead, 0
		t.reach(readersJoined, "joins the readers")
	case is&whole == 0: // another reader may be making it: TryLock converts, and lets go of SH first
		t.s.unlock(p.dead, t.i)
		if t.s.free(p.dead, t.i, true) {
			t.s.lock(p.dead, t.i, true)
			t.reach(judgesAlone, "can't join it, and locks it to judge it")
			return
		}
		t.reach(notAlone, "can't join it yet")
	default:
		t.s.unlock(p.dead, t.i)
		t.reach(judges, "can't join it")
	}
}

func (t *turn) lockToJudge() {
	p := t.me()
	if t.s.free(p.dead, t.i, true) {
		t.s.lock(p.dead, t.i, true)
		t.reach(judgesAlone, "locks it to judge it")
		return
	}
	t.waitsForFile("finds it locked")
}

// deadFile is the ladder of evidence, for a file whose own lock is ours.
func (t *turn) deadFile(f *inode) (isDead bool, why string) {
	gone := t.s.gone(f.maker)
	switch {
	case f.is&(whole|released) == whole|released:
		return true, "released"
	case f.is&foreign != 0:
		return gone, "process gone" // and what is empty ages
	case f.is&(whole|shared) == whole && !gone && t.m.has(twoProofs):
		return false, "its process lives"
	case f.is&whole != 0:
		return true, "kernel lock free"
	case f.is&marked != 0:
		return true, "died while claiming"
	}
	return false, "unreadable"
}

func (t *turn) judge() {
	p := t.me()
	if isDead, why := t.deadFile(t.s.at(p.dead)); isDead {
		t.reach(claimJudged, "judges it dead: "+why)
		return
	}
	if t.role().tries() {
		t.giveUp("can't judge it dead, and gives up")
		return
	}
	t.s.unlock(p.dead, t.i)
	p.dead = 0
	t.reach(anotherRound, "can't judge it dead, and looks again later")
}
