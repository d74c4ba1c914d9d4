package lockfile

// The steps at which a process can die, or is looked after.
const (
	StepCreated       = "lock file created"
	StepOwnLocked     = "own lock taken"
	StepChecked       = "lock file checked"
	StepWritten       = "claim written"
	StepPublished     = "prepared file named"
	StepFound         = "file found"               // a lock file, or a marker, that is there already
	StepFoundLocked   = "its lock taken"           // of that file
	StepFoundChecked  = "file found checked"       // it is still there
	StepNotAlone      = "readers' file being made" // by another reader, as we find it
	StepJoined        = "readers joined"           // by one more
	StepJudged        = "claim judged dead"
	StepMarkerCreated = "marker created"
	StepMarkerLocked  = "marker locked"
	StepMarkerChecked = "marker checked"
	StepMarkerWritten = "marker written"
	StepDeadTold      = "dead holder remembered"
	StepReread        = "dead claim read again"
	StepDeadRemoved   = "dead claim removed"
	StepMarkerRemoved = "marker removed"
	StepMarkerReread  = "dead marker read again"
	StepRightCreated  = "right created" // where own locks don't stand for all
	StepRightWritten  = "right written"
	StepOwned         = "ownership checked"
	StepRemoved       = "lock file removed"
	StepOwnUnlocked   = "own lock dropped"
	StepSharedDropped = "shared lock dropped" // by a leaving reader
	StepAlone         = "found alone"
	StepDying         = "holder on its way out"  // in judging, before it is waited for
	StepBusy          = "busy for an instant"    // to a TryAcquire, or an Inspect, which tries again
	StepPeeked        = "own lock taken to look" // by Inspect, for an instant
)
