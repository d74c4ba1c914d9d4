package model

// The places of the protocol, in the order of an acquisition. Those with a hook in the code
// (lock/step.go) have the same name as it.
const (
	out place = iota
	siblingOpened
	siblingLocked
	siblingChecked

	lockFileCreated
	ownLocked
	lockFileChecked
	claimWritten
	abandons
	abandonsAlone
	abandonsLooked

	anotherRound
	lockFileThere
	fileFound
	foundLocked
	foundStands
	notAlone
	readersJoined
	judges
	judgesAlone
	claimJudged

	markerCreated
	markerLocked
	markerChecked
	markerWritten
	deadTold
	deadReread
	deadLooked
	deadRemoved
	reclaimMoved
	markerLooked
	markerRemoved

	markerAgain
	markerThere
	markerFound
	markerFoundLocked
	markerFoundStands
	markerReread
	markerDeadLooked

	held
	fenceAsked
	fenceRead
	holding

	ownershipChecked
	removalFails
	lockFileRemoved
	lockFileLeft
	endTold
	ownUnlocked
	tidyAlone
	siblingIdle
	siblingLooked
	siblingGone
	siblingStays
	siblingUnlocked

	sharedDropped
	meetsOthers
	alone
	aloneLooked

	looksAgain
	looksAgainOpened
	looksAgainAlone
	looksAgainLooked

	tidiesUp
	tidiesUpOpened

	leftAtSibling
	leftAtFile
	leftAlone
	leftLooked
	leftShared

	// Ends.
	done
	failed
	dead
	childHas
	another

	places
)

// A step says what a process does next that has come to a place.
type step struct {
	name string
	hook bool // the code has a hook of this name
	// do takes the step. If it reaches nothing, the process waits.
	do func(t *turn)
	// waits is the hook of the code that stands for a process which waits here.
	waits string

	holds     bool // the process has the lock
	relies    bool // it counts on p.own to stay at its path
	hasMarker bool // it counts on p.mark to stay at its path
	met       bool // a marker is met: by a reclaimer, or by a holder (who has p.own)
	gap       bool // it has looked, and removes by path: two adjacent system calls
	leased    bool // nobody else can open the sibling, by a lease
	ended     bool
}

var steps [allPlaces]step

func init() {
	for at, s := range map[place]step{
		// Step 1 of acquire.go: the queue.
		out:            {name: "out", do: (*turn).openSibling},
		siblingOpened:  {name: "sibling opened", do: (*turn).lockSibling, waits: "about to wait"},
		siblingLocked:  {name: "sibling locked", hook: true, do: (*turn).checkSibling},
		siblingChecked: {name: "sibling checked", hook: true, do: (*turn).createFile},

		// Step 2: create.
		lockFileCreated: {name: "lock file created", hook: true, do: (*turn).lockCreated},
		ownLocked:       {name: "own lock taken", hook: true, do: (*turn).checkCreated},
		lockFileChecked: {name: "lock file checked", hook: true, do: (*turn).writeClaim, relies: true},
		claimWritten:    {name: "claim written", hook: true, do: (*turn).clearMarkers, relies: true, holds: true},
		abandons:        {name: "abandons its file", do: (*turn).abandon},
		abandonsAlone:   {name: "abandons its file, alone", do: (*turn).abandonLook},
		abandonsLooked:  {name: "abandons its file, looked", do: (*turn).abandonRemove, gap: true},

		// Step 3: a file is there.
		anotherRound:  {name: "another round", do: (*turn).createFile},
		lockFileThere: {name: "lock file there", do: (*turn).openFound},
		fileFound:     {name: "file found", hook: true, do: (*turn).lockFound, waits: "about to wait"},
		foundLocked:   {name: "its lock taken", hook: true, do: (*turn).checkFound},
		foundStands:   {name: "file found checked", hook: true, do: (*turn).readFound},
		notAlone:      {name: "readers' file being made", hook: true, do: (*turn).again},
		readersJoined: {name: "readers joined", hook: true, do: (*turn).clearMarkers, relies: true, holds: true},
		judges:        {name: "not to be joined", do: (*turn).lockToJudge, waits: "about to wait"},
		judgesAlone:   {name: "its lock taken to judge", do: (*turn).judge},
		claimJudged:   {name: "claim judged dead", hook: true, do: (*turn).createMarker},

		// Reclaim.
		markerCreated: {name: "marker created", hook: true, do: (*turn).lockMarker},
		markerLocked:  {name: "marker locked", hook: true, do: (*turn).checkMarker},
		markerChecked: {name: "marker checked", hook: true, do: (*turn).writeMarker, hasMarker: true},
		markerWritten: {name: "marker written", hook: true, do: (*turn).tellDead, hasMarker: true},
		deadTold:      {name: "dead holder remembered", hook: true, do: (*turn).rereadDead, hasMarker: true},
		deadReread:    {name: "dead claim read again", hook: true, do: (*turn).lookDead, hasMarker: true},
		deadLooked:    {name: "dead claim looked at", do: (*turn).removeDead, hasMarker: true, gap: true},
		deadRemoved:   {name: "dead claim removed", hook: true, do: (*turn).lookMarker, hasMarker: true},
		reclaimMoved:  {name: "dead claim moved", do: (*turn).lookMarker, hasMarker: true},
		markerLooked:  {name: "own marker looked at", do: (*turn).discardMarker, hasMarker: true, gap: true},
		markerRemoved: {name: "marker removed", hook: true, do: (*turn).afterReclaim},

		// A marker is there.
		markerAgain:       {name: "another marker", do: (*turn).createMarker},
		markerThere:       {name: "marker there", do: (*turn).openMarker, met: true},
		markerFound:       {name: "file found", hook: true, do: (*turn).lockMarkerFound, met: true},
		markerFoundLocked: {name: "its lock taken", hook: true, do: (*turn).checkMarkerFound, met: true},
		markerFoundStands: {name: "file found checked", hook: true, do: (*turn).judgeMarker, met: true},
		markerReread:      {name: "dead marker read again", hook: true, do: (*turn).lookDeadMarker, met: true},
		markerDeadLooked:  {name: "dead marker looked at", do: (*turn).removeDeadMarker, gap: true, met: true},

		// Held.
		held:       {name: "held", hook: true, do: (*turn).hold, relies: true, holds: true},
		fenceAsked: {name: "fence asked for", do: (*turn).readFence, relies: true, holds: true},
		fenceRead:  {name: "fence read", do: (*turn).raiseFence, relies: true, holds: true},
		holding:    {name: "holding", do: (*turn).release, relies: true, holds: true},

		// Release.
		ownershipChecked: {name: "ownership checked", hook: true, do: (*turn).removeOwn, relies: true, gap: true},
		removalFails:     {name: "removal fails", do: (*turn).sayReleased, relies: true},
		lockFileRemoved:  {name: "lock file removed", hook: true, do: (*turn).tellEnd},
		lockFileLeft:     {name: "lock file left", do: (*turn).tellEnd},
		endTold:          {name: "release remembered", hook: true, do: (*turn).unlockOwn},
		ownUnlocked:      {name: "own lock dropped", hook: true, do: (*turn).tidy},
		tidyAlone:        {name: "sibling had for itself", do: (*turn).tidyLook, leased: true},
		siblingLooked:    {name: "no lock file there", do: (*turn).tidyLookSibling, leased: true},
		siblingIdle:      {name: "sibling not needed", hook: true, do: (*turn).removeSibling, gap: true, leased: true},
		siblingGone:      {name: "sibling removed", hook: true, do: (*turn).unlockSibling},
		siblingStays:     {name: "sibling stays", do: (*turn).unlockSibling},
		siblingUnlocked:  {name: "sibling unlocked", hook: true, do: (*turn).after},

		// A reader leaves.
		sharedDropped: {name: "shared lock dropped", hook: true, do: (*turn).tryAlone},
		meetsOthers:   {name: "others have the file", do: (*turn).othersLeft},
		alone:         {name: "found alone", hook: true, do: (*turn).lookAlone},
		aloneLooked:   {name: "found alone, looked", do: (*turn).removeAlone, gap: true},

		looksAgain:       {name: "looks again", do: (*turn).lookForReaders},
		looksAgainOpened: {name: "looks again, opened", do: (*turn).lockReaders},
		looksAgainAlone:  {name: "looks again, alone", do: (*turn).checkReaders},
		looksAgainLooked: {name: "looks again, looked", do: (*turn).clearReaders, gap: true},

		tidiesUp:       {name: "tidies up", do: (*turn).tidyOpen},
		tidiesUpOpened: {name: "tidies up, opened", do: (*turn).tidyLock},

		// Waits that were cancelled, until they are granted.
		leftAtSibling: {name: "wait at the sibling left behind", do: (*turn).giveBackSibling},
		leftAtFile:    {name: "wait at the lock file left behind", do: (*turn).giveBackFile},
		leftAlone:     {name: "got it for nobody", do: (*turn).giveBackLook},
		leftLooked:    {name: "got it for nobody, looked", do: (*turn).giveBackRemove, gap: true},

		done:     {name: "done", hook: true, ended: true},
		failed:   {name: "gave up", hook: true, ended: true},
		dead:     {name: "dead", ended: true},
		childHas: {name: "dead, its child has the files", do: (*turn).childEnds, ended: true},
		another:  {name: "another program", do: (*turn).otherEnds, ended: true},
	} {
		steps[at] = s
	}
	addOthers()
	addFormer()
	addFallback()
}

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

// ---- 2: create

func (t *turn) createFile() {
	p := t.me()
	p.own, p.dead, p.mark = 0, 0, 0
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
	if t.role().tries() || !t.m.has(creatorWaits) {
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

// waitsForFile is lockOwn: who waits looks whether the path still leads to the file.
func (t *turn) waitsForFile(why string) {
	p := t.me()
	if t.role().tries() {
		t.giveUp(why + ", and gives up")
	}
	if t.s.P != p.dead {
		t.moved("sees that the lock file has moved")
	}
	t.cancels(leftAtFile)
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
	if d := t.s.at(t.me().dead); d.is&(whole|shared|released|foreign) == whole {
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
	case t.role().tries():
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

// ---- held

// clearMarkers is hold: who has the lock removes a marker that the dead have left.
func (t *turn) clearMarkers() {
	if t.s.M != 0 && t.m.has(clearMarkers) {
		t.me().mark = t.s.M
		t.reach(markerFound, "has the lock, and opens the marker that is there")
		return
	}
	t.reach(held, "has the lock")
}
