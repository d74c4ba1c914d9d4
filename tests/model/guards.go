package model

// A guard is one thing that the protocol does for safety's sake, or so that nobody waits for
// ever. It can be taken out of a machine.
type guard uint8

const (
	// Rule A: the lock of the very file.
	lockCreated guard = iota
	creatorWaits
	lockFound
	lockJoined
	lockLast
	lockMarker
	lockMarkerFound

	// Rule B: the look whether the path still leads there.
	lookCreated
	lookFound
	lookDead
	lookLast
	lookOwn
	lookMarker
	lookOwnMarker
	lookMarkerFound
	lookDeadMarker
	lookAfterWaiting
	lookWhileWaiting
	lookTidy

	// The turnstile.
	lookTurnstile
	triesLook
	takeTurnstile
	keepTurnstile
	overtakeTurnstile

	// The rest.
	leaveAlone
	unlockLast
	saysReleased
	theMark
	twoProofs
	theMarker
	clearMarkers
	looksAgainForReaders
	clearGivenBack
	noLockFile
	openElsewhere
	keepDeath
	tellDeath
	keepFence
	nextNumber
	timeOfDay
	theRight
	rightByName
)

// A Guard is one guard, or two that stand for each other, with a case in which something goes
// wrong without it.
type Guard struct {
	Name     string // of its file in testdata
	Does     string
	Of       part // the half in which it is needed, too; joint: it is of the seam, or the record's
	Without  guardList
	Case     Machine // and nothing goes wrong in it with all guards
	Prevents violation
}

func may(pairs ...uint8) (b [budgets]uint8) {
	for i := 0; i < len(pairs); i += 2 {
		b[pairs[i]] = pairs[i+1]
	}
	return b
}

const (
	crash   = uint8(crashes)
	child   = uint8(heirs)
	execd   = uint8(execs)
	stop    = uint8(stops)
	rmS     = uint8(siblingRemoved)
	mvS     = uint8(siblingReplaced)
	rmP     = uint8(fileRemoved)
	mvP     = uint8(fileReplaced)
	rmM     = uint8(markerGoes)
	noUnl   = uint8(failures)
	cancel  = uint8(cancels)
	setback = uint8(setBack)
	again   = uint8(agains)
)

// Guards are all of them.
var Guards = []Guard{
	{"A-create", "who creates the lock file locks it before anything else", lockFileHalf, guardList{lockCreated},
		Machine{Roles: []Role("ww"), Budget: may(rmS, 1)}, twoHolders},
	{"A-create-waits", "... and waits for who only looks at it, or removes it", lockFileHalf, guardList{creatorWaits},
		Machine{Roles: []Role("ti")}, left},
	{"A-take-over", "who judges a file has its lock", lockFileHalf, guardList{lockFound},
		Machine{Roles: []Role("ww"), Budget: may(rmS, 1)}, removesLiving},
	{"A-join", "who joins readers has their file's lock, shared", lockFileHalf, guardList{lockJoined},
		Machine{Roles: []Role("wrr"), First: "BBBBB", Budget: may(rmS, 1)}, twoHolders},
	{"A-last-reader", "who removes the readers' file has it alone", lockFileHalf, guardList{lockLast},
		Machine{Roles: []Role("rr")}, removesLiving},
	{"A-marker", "who creates the marker locks it", lockFileHalf, guardList{lockMarker},
		Machine{Roles: []Role("ww"), Budget: may(rmS, 1, rmP, 1), DeadFile: true, Excused: twoHolders}, removesMarker},
	{"A-dead-marker", "who judges a marker has its lock", lockFileHalf, guardList{lockMarkerFound},
		Machine{Roles: []Role("ww"), Budget: may(rmS, 1, rmP, 1), DeadFile: true, Excused: twoHolders}, removesMarker},

	{"B-create", "a file that was created and locked is looked for at the path", lockFileHalf, guardList{lookCreated},
		Machine{Roles: []Role("ww"), Budget: may(rmS, 1)}, twoHolders},
	{"B-take-over", "so is one that is there", lockFileHalf, guardList{lookFound},
		Machine{Roles: []Role("wrr"), First: "BBBBB", Budget: may(rmS, 1)}, twoHolders},
	{"B-reclaim", "a dead holder's file is looked for once more before it is removed", lockFileHalf, guardList{lookDead},
		Machine{Roles: []Role("rr"), Budget: may(rmP, 1), DeadFile: true}, removesLiving},
	{"B-last-reader", "so is the readers' file", lockFileHalf, guardList{lookLast},
		Machine{Roles: []Role("wr"), Budget: may(rmS, 1)}, removesLiving},
	{"B-release", "so is one's own", lockFileHalf, guardList{lookOwn},
		Machine{Roles: []Role("wF"), Budget: may(rmP, 1)}, removesLiving},
	{"B-discard-marker", "so is one's own marker", lockFileHalf, guardList{lookOwnMarker},
		Machine{Roles: []Role("wE"), Budget: may(rmM, 1), DeadFile: true}, removesMarker},
	{"B-dead-marker", "so is a dead one's marker", lockFileHalf, guardList{lookDeadMarker},
		Machine{Roles: []Role("wE"), Budget: may(rmM, 1), DeadFile: true, DeadMarker: true}, removesMarker},
	{"B-sibling", "who waited for the sibling looks whether it is still there", queueHalf, guardList{lookAfterWaiting},
		Machine{Roles: []Role("ww"), Budget: may(again, 1, rmP, 1), Tidy: true}, twoHolders},
	{"look-while-waiting", "... and while waiting", queueHalf, guardList{lookWhileWaiting},
		Machine{Roles: []Role("ww"), Budget: may(stop, 1, rmS, 1)}, stuck},
	{"B-tidy", "who tidies up looks whether the sibling is still there", queueHalf, guardList{lookTidy},
		Machine{Roles: []Role("ww"), Budget: may(rmS, 1), Tidy: true}, removesSibling},

	{"turnstile-look", "who comes looks whether somebody is at the turnstile", queueHalf, guardList{lookTurnstile},
		Machine{Roles: []Role("ww"), Budget: may(again, 1), Turnstile: true, Order: true}, passed},
	{"turnstile-take", "who waits for the sibling has its turnstile", queueHalf, guardList{takeTurnstile},
		Machine{Roles: []Role("ww"), Budget: may(again, 1), Turnstile: true, Order: true}, passed},
	{"turnstile-keep", "... and keeps it until its lock file is made", queueHalf, guardList{keepTurnstile},
		Machine{Roles: []Role("www"), Budget: may(again, 1), Turnstile: true, Order: true}, passed},
	{"turnstile-readers", "a reader's try looks at the turnstile, too", queueHalf, guardList{triesLook},
		Machine{Roles: []Role("wru"), Turnstile: true, Order: true}, passed},
	{"overtake-turnstile", "who is stopped at the turnstile of a free lock is overtaken", queueHalf, guardList{overtakeTurnstile},
		Machine{Roles: []Role("www"), Budget: may(stop, 1), Turnstile: true}, stuck},

	{"last-reader-removes", "the readers' file goes with the last of them", lockFileHalf, guardList{leaveAlone},
		Machine{Roles: []Role("rr")}, removesLiving},
	{"unlock-last", "a release removes the file first, and then unlocks", joint, guardList{unlockLast},
		Machine{Roles: []Role("wr"), Budget: may(again, 1), Tidy: true}, removesSibling},
	{"says-released", "a file that can't be removed says that it was released", lockFileHalf, guardList{saysReleased},
		Machine{Roles: []Role("ww"), Budget: may(noUnl, 1)}, left},
	{"mark", "a lock file bears the mark from the first", lockFileHalf, guardList{theMark},
		Machine{Roles: []Role("ww"), Budget: may(crash, 1)}, left},
	{"two-proofs", "a whole claim of a living process is nobody's to remove", lockFileHalf, guardList{twoProofs},
		Machine{Roles: []Role("ww"), Budget: may(execd, 1)}, twoHolders},
	{"marker", "who reclaims makes a marker", lockFileHalf, guardList{theMarker},
		Machine{Roles: []Role("wE"), DeadFile: true, Beside: true}, twoHolders},
	{"clear-markers", "who has the lock removes a dead one's marker", lockFileHalf, guardList{clearMarkers},
		Machine{Roles: []Role("w"), DeadMarker: true}, left},
	{"looks-again", "a reader who left the file to others looks again", lockFileHalf, guardList{looksAgainForReaders},
		Machine{Roles: []Role("rr")}, left},
	{"tidy-not-open", "a sibling that others have open stays", queueHalf, guardList{openElsewhere},
		Machine{Roles: []Role("wwL"), Tidy: true, Beside: true}, twoHolders},
	{"tidy-keeps-death", "a sibling that tells of a death stays", joint, guardList{keepDeath},
		Machine{Roles: []Role("wr"), DeadFile: true, Tidy: true}, deathUnheard},
	{"tell-death", "who reclaims writes down who has died", joint, guardList{tellDeath},
		Machine{Roles: []Role("wr"), DeadFile: true}, deathUnheard},
	{"tidy-keeps-fence", "a sibling with a fence stays", joint, guardList{keepFence},
		Machine{Roles: []Role("ww"), Budget: may(setback, 1), Tidy: true, Fence: true}, fenceBack},
	{"fence-next", "a fence is greater than the one before", joint, guardList{nextNumber},
		Machine{Roles: []Role("ww"), Budget: may(setback, 1), Fence: true}, fenceBack},
	{"fence-time", "... and not less than the time", joint, guardList{timeOfDay},
		Machine{Roles: []Role("ww"), Budget: may(rmS, 1), Fence: true}, fenceBack},

	{"fallback-right", "in fallback mode a dead one's file is removed by who has the right to that", joint, guardList{theRight},
		Machine{Roles: []Role("bb"), DeadFile: true, DeadMarker: true}, twoHolders},
	{"fallback-right-by-name", "... which is named after that very file", joint, guardList{rightByName},
		Machine{Roles: []Role("bbb"), Budget: may(crash, 1), DeadFile: true, DeadMarker: true}, removesMarker},
}

// Spare are guards on which nothing depends by itself, in any short case: each stands behind
// another one. A case in which one is needed moves it to Guards.
var Spare = []Guard{
	{Name: "B-marker", Does: "a marker that was created and locked is looked for at its path", Without: guardList{lookMarker}},
	{Name: "B-marker-found", Does: "so is one that is there", Without: guardList{lookMarkerFound}},
	{Name: "clear-given-back", Does: "a wait that comes for nobody clears the readers' file", Without: guardList{clearGivenBack}},
	{Name: "tidy-no-lock-file", Does: "who tidies up finds no lock file", Without: guardList{noLockFile}},
}

// Open is what no guard prevents, and the docs say: GUARANTEES.md, "Limits".
var Open = []Guard{
	{"open-both-removed", "a hand removes both files", joint, nil,
		Machine{Roles: []Role("ww"), Budget: may(rmS, 1, rmP, 1)}, twoHolders},
	{"open-gap", "a program that steals makes its claim between the look at a dead one and its removal", joint, nil,
		Machine{Roles: []Role("wK"), DeadFile: true, Gaps: true}, removesLiving},
	{"open-heirs", "a hand removes the lock file, which only children of a dead holder have", joint, nil,
		Machine{Roles: []Role("ww"), Budget: may(child, 1, rmP, 1)}, twoHolders},
	{"open-flock", "flock(1) opens the sibling between the look and the removal of who tidies up", joint, nil,
		Machine{Roles: []Role("wwL"), Tidy: true, Gaps: true, Beside: true}, twoHolders},
}

type guardList []guard

func (l guardList) set() (s guards) {
	for _, g := range l {
		s |= 1 << g
	}
	return s
}

// Break explores the case of a guard without it, until there is what it prevents.
func (g *Guard) Break() Result {
	m := g.Case
	m.Name = g.Name
	m.without, m.sought = g.Without.set(), g.Prevents
	return m.Explore(50_000_000)
}
