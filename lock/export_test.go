package lock

// Park returns f with a function that is called at each step of the protocol.
func (f File) Park(park func(step string)) File {
	f.park = func(s step) { park(string(s)) }
	return f
}

// Steps of the protocol, in the order in which they are met.
var (
	AcquireSteps = steps(stepKernelLocked, stepSiblingChecked, stepCreated, stepWritten, stepComplete)
	ReclaimSteps = steps(stepKernelLocked, stepSiblingChecked, stepMarkerCreated, stepMarkerWritten,
		stepMarkerComplete, stepReread, stepReplaced)
	ReleaseSteps = steps(stepOwned, stepRemoved, stepUnlocked)
)

func steps(of ...step) (names []string) {
	for _, s := range of {
		names = append(names, string(s))
	}
	return names
}

// WithoutKernelLock returns f in fallback mode.
func (f File) WithoutKernelLock() File {
	f.noKernelLock = true
	return f
}
