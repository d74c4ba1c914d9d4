package lock

// The steps of the protocol at which a process can die, beside those of packages lockfile and
// queue.
const (
	stepSiblingLocked  = "sibling locked"
	stepSiblingChecked = "sibling checked"
	stepEndTold        = "release remembered"
	stepUnlocked       = "sibling unlocked"
)

// at tells a test which step the protocol has reached.
func (p *place) at(step string) {
	if p.file.park != nil {
		p.file.park(step)
	}
}
