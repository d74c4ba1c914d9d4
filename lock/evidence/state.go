package evidence

// State is what a lock is found to be.
type State string

const (
	Free    State = "free"    // nobody has it
	Held    State = "held"    // its holder is alive
	Dead    State = "dead"    // its holder is dead; acquiring takes it over
	Unknown State = "unknown" // it can't be told; acquiring treats it as held
)

// Evidence is the fact that decided a State, in words for people. The texts are part of the
// interface: programs may compare them.
type Evidence string

const (
	// Of Free.
	NoLockFile Evidence = "no lock file"

	// Of Held.
	KernelLockHeld Evidence = "kernel lock held"
	OthersWait     Evidence = "others wait for the lock"
	// BeingReclaimed is also of Unknown, when the marker's owner is unknown.
	BeingReclaimed Evidence = "its marker, the file beside it that ends in .reclaim, is another process's"
	SameProcess    Evidence = "the process that wrote the claim is running"
	BeganBefore    Evidence = "the process with the claim's pid began before the claim was made"
	Prepared       Evidence = "a prepared transaction holds the lock" // of a database; no process has it

	// Of Dead.
	SaysReleased     Evidence = "its holder has given it up, and nobody has it any more"
	KernelLockFree   Evidence = "kernel lock free"
	Incomplete       Evidence = "died while claiming"
	ProcessGone      Evidence = "process gone"
	PIDReused        Evidence = "pid reused by another process"
	MachineRestarted Evidence = "machine restarted"
	PowerLost        Evidence = "nothing but NULs, which a loss of power leaves"
	Aged             Evidence = "older than the allowed age"

	// Of no State: why a holder called ReleaseAsDied.
	OwnerEnded Evidence = "its owner ended without releasing the lock"
	ToldToEnd  Evidence = "its keeper was told to end"

	// Of Unknown.
	NotALockFile     Evidence = "not a lock file"
	NotPermitted     Evidence = "not permitted to read it"
	Leased           Evidence = "another process has a lease on the file"
	Unreadable       Evidence = "claim unreadable"
	ForeignHost      Evidence = "claim from another host"
	ForeignNamespace Evidence = "claim from another pid namespace"
	PIDExists        Evidence = "a process has the claim's pid, but may be another one"
	Unproven         Evidence = "nothing proves the holder dead"
	OtherNonce       Evidence = "the claim has another nonce"
)

// Hint says what a person can do about a lock that this evidence keeps locked.
func (e Evidence) Hint() string {
	switch e {
	case OthersWait:
		return "wait for it"
	case KernelLockHeld, SameProcess, BeganBefore:
		return "wait for it, or end that process"
	case NotALockFile:
		return "move away what is at that path, if it is not in use"
	case NotPermitted:
		return "ask who owns the file, or root"
	case Unreadable, Incomplete:
		return "if no program is using the lock, remove the file"
	case BeingReclaimed:
		return "try again; if no process is at work on the lock, remove that file"
	case Leased:
		return "wait for that process, or end it"
	case ForeignHost, ForeignNamespace, PIDExists, Unproven:
		return "if that holder is gone, remove the file"
	}
	return ""
}
