package evidence

import "time"

// KernelLock is what is known of the lock file's own kernel lock.
type KernelLock uint8

const (
	KernelUnknown KernelLock = iota // fallback mode, or it may not be looked at
	KernelFree                      // we have it, or just had it
	KernelHeld                      // another open file holds it
)

// Content is what the lock file holds.
type Content uint8

const (
	ContentClaim     Content = iota // a whole claim
	ContentNone                     // no claim, or only the beginning of one
	ContentAlien                    // not a regular file, or far too large, or somebody's data
	ContentForbidden                // we may not read it
	ContentLeased                   // it can't be opened now
)

// Origin is where a claim was made, seen from here.
type Origin uint8

const (
	OriginForeignHost      Origin = iota // another machine, or one that can't be told from another
	OriginForeignNamespace               // this boot, another pid namespace
	OriginEarlierBoot                    // this machine, before it restarted
	OriginHere                           // this boot, this pid namespace: its pid means something to us
)

// Life is what is known of the process that a claim names.
type Life uint8

const (
	Uncertain Life = iota // it can't be told whether there is such a process
	Exists                // a process has its pid, and may be another one
	Alive                 // it runs
	Gone                  // no process has its pid, or the one that had it has exited
	Replaced              // another process has its pid now
)

// Facts are all that the ladder of evidence looks at.
type Facts struct {
	Kernel  KernelLock
	Trusted bool // the filesystem's locks are its only kernel's
	Content Content

	// Of what is no claim:
	Marked bool // it bears a mark that means something here, and at most the beginning of a claim
	NULs   bool // nothing but NULs, at least one, and no process that could write has it open

	// Of a claim:
	Released  bool
	Origin    Origin
	Process   Life // meaningful if OriginHere
	Began     bool // ... and the process that has its pid now began before it was made
	UnderLock bool // made under a kernel lock that its maker trusted
	SameKind  bool // ... on a filesystem of the kind that we see it on
	Copied    bool // ... and it lies in another file than it was written to
	Shared    bool // made by the first of several readers

	Age        time.Duration
	StaleAfter time.Duration // negative: age proves nothing
}

// Judge is the ladder of evidence: the first rung that holds decides on a lock file.
// Nothing else in this package calls a holder dead.
func Judge(f Facts) (State, Evidence) {
	whole := f.Content == ContentClaim
	here := whole && f.Origin == OriginHere
	proof := f.Kernel == KernelFree && f.Trusted
	own := proof && whole && f.UnderLock && f.SameKind

	switch {
	// A process that holds the kernel lock lives.
	case f.Kernel == KernelHeld:
		return Held, KernelLockHeld
	// A file that no participant writes, or that we may not touch, is nobody's to remove.
	case f.Content == ContentAlien:
		return Unknown, NotALockFile
	case f.Content == ContentForbidden:
		return Unknown, NotPermitted
	case f.Content == ContentLeased:
		return Unknown, Leased
	// 0. The holder's own word.
	case whole && f.Released:
		return Dead, SaysReleased
	// 1. The very process of the claim runs. If the lock is free all the same, two proofs
	// contradict each other: fail closed. (A shared claim outlives the reader that wrote it,
	// until the last reader is gone. A copy of a claim proves nothing.)
	case here && f.Process == Alive && !f.Copied && !(own && f.Shared):
		return Held, SameProcess
	// A clock set forward since can make a holder look younger than its claim. So only the
	// reverse proves something.
	case here && f.Process == Exists && f.Began && !own:
		return Held, BeganBefore
	// 2. Made under the kernel lock that is free now.
	case own:
		return Dead, KernelLockFree
	// 3. The maker of a lock file has its kernel lock until the claim is whole, and after.
	case proof && f.Content == ContentNone && f.Marked:
		return Dead, Incomplete
	// 4. The pid's own evidence. (A shared claim has only the first reader's pid.)
	case here && f.Process == Gone && (!f.Shared || proof):
		return Dead, ProcessGone
	case here && f.Process == Replaced && (!f.Shared || proof):
		return Dead, PIDReused
	// 5. No holder on a local filesystem survives a restart; only files do. Only a loss of power
	// leaves a file of NULs. (The file's time proves nothing: a clock set forward makes every
	// file look older than the boot.)
	case proof && whole && f.UnderLock && f.Origin == OriginEarlierBoot:
		return Dead, MachineRestarted
	case proof && f.Content == ContentNone && f.NULs:
		return Dead, PowerLost
	// 6. A claim that proves nothing ages, where the caller allows it. A claim made under a
	// trusted kernel lock does not: its holder never renews it, however long it lives.
	case f.StaleAfter >= 0 && f.Age > f.StaleAfter && !(whole && f.UnderLock):
		return Dead, Aged
	}
	// 7. Treated as held; the rest only says why.
	switch {
	case !whole:
		return Unknown, Unreadable
	case f.Origin == OriginForeignHost, f.Origin == OriginEarlierBoot:
		return Unknown, ForeignHost
	case f.Origin == OriginForeignNamespace:
		return Unknown, ForeignNamespace
	case f.Process == Exists:
		return Unknown, PIDExists
	}
	return Unknown, Unproven
}
