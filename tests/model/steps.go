package model

// The places of the protocol, in the order of an acquisition. Those with a hook in the code
// (lock/step.go) have the same name as it.
const (
	out place = iota
	siblingOpened
	turnstileLooked
	turnstileBusy
	inLine
	turnstileHad
	siblingLocked
	siblingChecked

	lockFileCreated
	ownLocked
	lockFileChecked
	claimWritten
	turnstileLeft
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
	says  string // the hook, if it has another name

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
		out:             {name: "out", do: (*turn).openSibling},
		siblingOpened:   {name: "sibling opened", do: (*turn).lockSibling, waits: "about to wait"},
		turnstileLooked: {name: "nobody at the turnstile", do: (*turn).passSibling},
		turnstileBusy:   {name: "comes to the turnstile", do: (*turn).takeTurnstile},
		inLine:          {name: "in line at the turnstile", do: (*turn).standInLine, waits: "about to wait"},
		turnstileHad:    {name: "has the turnstile", do: (*turn).lockFromTurnstile, waits: "about to wait"},
		siblingLocked:   {name: "sibling locked", hook: true, do: (*turn).checkSibling},
		siblingChecked:  {name: "sibling checked", hook: true, do: (*turn).createFile},

		// Step 2: create.
		lockFileCreated: {name: "lock file created", hook: true, do: (*turn).lockCreated},
		ownLocked:       {name: "own lock taken", hook: true, do: (*turn).checkCreated},
		lockFileChecked: {name: "lock file checked", hook: true, do: (*turn).writeClaim, relies: true},
		claimWritten:    {name: "claim written", hook: true, do: (*turn).clearMarkers, relies: true, holds: true},
		turnstileLeft:   {name: "turnstile left", do: (*turn).clearMarkers, relies: true, holds: true},
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

		// A wait that was cancelled, until it is granted.
		leftAtFile: {name: "wait at the lock file left behind", do: (*turn).giveBackFile},
		leftAlone:  {name: "got it for nobody", do: (*turn).giveBackLook},
		leftLooked: {name: "got it for nobody, looked", do: (*turn).giveBackRemove, gap: true},

		done:     {name: "done", hook: true, ended: true},
		failed:   {name: "gave up", hook: true, ended: true},
		dead:     {name: "dead", ended: true},
		childHas: {name: "dead, its child has the files", hook: true, do: (*turn).childEnds, ended: true},
		another:  {name: "another program", hook: true, do: (*turn).otherEnds, ended: true},
	} {
		steps[at] = s
	}
	addOthers()
	addFormer()
	addFallback()
}
