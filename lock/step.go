package lock

// step names a point of the protocol at which a process can die.
type step string

const (
	stepSiblingLocked  step = "sibling locked"
	stepSiblingChecked step = "sibling checked"
	stepCreated        step = "lock file created"
	stepOwnLocked      step = "own lock taken"
	stepChecked        step = "lock file checked"
	stepWritten        step = "claim written"

	stepFound        step = "file found"         // a lock file, or a marker, that is there already
	stepFoundLocked  step = "its lock taken"     // of that file
	stepFoundChecked step = "file found checked" // it is still there

	stepNotAlone step = "readers' file being made" // by another reader, as we find it
	stepJoined   step = "readers joined"           // by one more

	stepJudged        step = "claim judged dead"
	stepMarkerCreated step = "marker created"
	stepMarkerLocked  step = "marker locked"
	stepMarkerChecked step = "marker checked"
	stepMarkerWritten step = "marker written"
	stepDeadTold      step = "dead holder remembered"
	stepReread        step = "dead claim read again"
	stepDeadRemoved   step = "dead claim removed"
	stepMarkerRemoved step = "marker removed"
	stepMarkerReread  step = "dead marker read again"
	stepRightCreated  step = "right created" // where own locks don't stand for all
	stepRightWritten  step = "right written"

	stepOwned          step = "ownership checked"
	stepRemoved        step = "lock file removed"
	stepEndTold        step = "release remembered"
	stepOwnUnlocked    step = "own lock dropped"
	stepSiblingIdle    step = "sibling not needed" // by a holder that tidies up
	stepSiblingRemoved step = "sibling removed"
	stepUnlocked       step = "sibling unlocked"

	stepSharedDropped step = "shared lock dropped" // by a reader who leaves
	stepAlone         step = "found alone"

	stepDying   step = "holder on its way out" // in judging, before it is waited for
	stepGranted step = "sibling granted"       // to a waiter, who still has the turnstile
	stepBusy    step = "busy for an instant"   // to a TryAcquire, or an Inspect, which tries again
	stepParks   step = "about to wait"         // in the kernel
	stepLooked  step = "wait looked after"
	stepPeeked  step = "own lock taken to look" // by Inspect, for an instant
)

// at tells a test which step the protocol has reached.
func (p *place) at(s step) {
	if p.file.park != nil && s != "" {
		p.file.park(s)
	}
}
