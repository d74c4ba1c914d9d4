package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// State is what a lock is found to be.
type State string

const (
	StateFree    State = "free"    // nobody has it
	StateHeld    State = "held"    // its holder is alive
	StateDead    State = "dead"    // its holder is dead; acquiring takes it over
	StateUnknown State = "unknown" // it can't be told; acquiring treats it as held
)

// Evidence is the fact that decided a State, in words for people. The texts
// are part of the interface: programs may compare them.
type Evidence string

const (
	// Of StateFree.
	EvidenceNoLockFile Evidence = "no lock file"

	// Of StateHeld.
	EvidenceKernelLockHeld Evidence = "kernel lock held"
	EvidenceOthersWait     Evidence = "others wait for the lock"
	// EvidenceBeingReclaimed is also of StateUnknown, when the marker's owner is unknown.
	EvidenceBeingReclaimed Evidence = "its marker, the file beside it that ends in .reclaim, is another process's"
	EvidenceSameProcess    Evidence = "the process that wrote the claim is running"
	EvidenceBeganBefore    Evidence = "the process with the claim's pid began before the claim was made"

	// Of StateDead.
	EvidenceSaysReleased     Evidence = "its holder has given it up, and nobody has it any more"
	EvidenceKernelLockFree   Evidence = "kernel lock free"
	EvidenceIncomplete       Evidence = "died while claiming"
	EvidenceProcessGone      Evidence = "process gone"
	EvidencePIDReused        Evidence = "pid reused by another process"
	EvidenceMachineRestarted Evidence = "machine restarted"
	EvidencePowerLost        Evidence = "nothing but NULs, which a loss of power leaves"
	EvidenceAged             Evidence = "older than the allowed age"

	// Of nobody who is judged: why a holder called ReleaseAsDied.
	EvidenceOwnerEnded Evidence = "its owner ended without releasing the lock"
	EvidenceToldToEnd  Evidence = "its keeper was told to end"

	// Of StateUnknown.
	EvidenceNotALockFile     Evidence = "not a lock file"
	EvidenceNotPermitted     Evidence = "not permitted to read it"
	EvidenceLeased           Evidence = "another process has a lease on the file"
	EvidenceUnreadable       Evidence = "claim unreadable"
	EvidenceForeignHost      Evidence = "claim from another host"
	EvidenceForeignNamespace Evidence = "claim from another pid namespace"
	EvidencePIDExists        Evidence = "a process has the claim's pid, but may be another one"
	EvidenceUnproven         Evidence = "nothing proves the holder dead"
	EvidenceOtherNonce       Evidence = "the claim has another nonce"
)

// kernelFact is what is known of the lock file's own kernel lock.
type kernelFact uint8

const (
	kernelUnknown kernelFact = iota // fallback mode, or it may not be looked at
	kernelFree                      // we have it, or just had it
	kernelHeld                      // another open file holds it
)

// contentFact is what the lock file holds.
type contentFact uint8

const (
	contentClaim     contentFact = iota // a whole claim
	contentNone                         // no claim, or only the beginning of one
	contentAlien                        // not a regular file, or far too large, or somebody's data
	contentForbidden                    // we may not read it
	contentLeased                       // it can't be opened now
)

// originFact is where a claim was made, seen from here.
type originFact uint8

const (
	originForeignHost      originFact = iota // another machine, or one that can't be told from another
	originForeignNamespace                   // this boot, another pid namespace
	originEarlierBoot                        // this machine, before it restarted
	originHere                               // this boot, this pid namespace: its pid means something to us
)

// facts are all that the ladder of evidence looks at.
type facts struct {
	kernel  kernelFact
	trusted bool // the filesystem's locks are its only kernel's
	content contentFact

	// Of what is no claim:
	marked bool // it bears a mark that means something here, and at most the beginning of a claim
	nuls   bool // nothing but NULs, at least one, and nobody who could write has it open

	// Of a claim:
	released  bool
	origin    originFact
	process   platform.Liveness // meaningful if originHere
	began     bool              // ... and the process that has its pid now began before it was made
	underLock bool              // made under a kernel lock that its maker trusted
	sameKind  bool              // ... on a filesystem of the kind that we see it on
	copied    bool              // ... and it lies in another file than it was written to
	shared    bool              // made by the first of several readers

	age        time.Duration
	staleAfter time.Duration // negative: age proves nothing
}

// judge is the ladder of evidence: the first rung that holds decides on a lock file.
// Nothing else in this package calls a holder dead.
func judge(f facts) (State, Evidence) {
	whole := f.content == contentClaim
	here := whole && f.origin == originHere
	proof := f.kernel == kernelFree && f.trusted
	own := proof && whole && f.underLock && f.sameKind

	switch {
	// Whoever holds the kernel lock lives.
	case f.kernel == kernelHeld:
		return StateHeld, EvidenceKernelLockHeld
	// A file that no participant writes, or that we may not touch, is nobody's to remove.
	case f.content == contentAlien:
		return StateUnknown, EvidenceNotALockFile
	case f.content == contentForbidden:
		return StateUnknown, EvidenceNotPermitted
	case f.content == contentLeased:
		return StateUnknown, EvidenceLeased
	// 0. The holder's own word.
	case whole && f.released:
		return StateDead, EvidenceSaysReleased
	// 1. The very process of the claim runs. If the lock is free all the same, two proofs
	// contradict each other: fail closed. (A shared claim outlives the reader who wrote it,
	// until the last reader is gone. A copy of a claim proves nothing.)
	case here && f.process == platform.Alive && !f.copied && !(own && f.shared):
		return StateHeld, EvidenceSameProcess
	// A clock set forward since can make a holder look younger than its claim. So only the
	// reverse proves something.
	case here && f.process == platform.Exists && f.began && !own:
		return StateHeld, EvidenceBeganBefore
	// 2. Made under the kernel lock that is free now.
	case own:
		return StateDead, EvidenceKernelLockFree
	// 3. The maker of a lock file has its kernel lock until the claim is whole, and after.
	case proof && f.content == contentNone && f.marked:
		return StateDead, EvidenceIncomplete
	// 4. The pid's own evidence. (A shared claim has only the first reader's pid.)
	case here && f.process == platform.Gone && (!f.shared || proof):
		return StateDead, EvidenceProcessGone
	case here && f.process == platform.Replaced && (!f.shared || proof):
		return StateDead, EvidencePIDReused
	// 5. No holder on a local filesystem survives a restart; only files do. Only a loss of
	// power leaves a file of NULs. (The file's time proves nothing: a clock set forward
	// makes every file look older than the boot.)
	case proof && whole && f.underLock && f.origin == originEarlierBoot:
		return StateDead, EvidenceMachineRestarted
	case proof && f.content == contentNone && f.nuls:
		return StateDead, EvidencePowerLost
	// 6. A claim that proves nothing ages, where the caller allows it. A claim made under a
	// trusted kernel lock does not: its holder never renews it, however long it lives.
	case f.staleAfter >= 0 && f.age > f.staleAfter && !(whole && f.underLock):
		return StateDead, EvidenceAged
	}
	// 7. Treated as held; the rest only says why.
	switch {
	case !whole:
		return StateUnknown, EvidenceUnreadable
	case f.origin == originForeignHost, f.origin == originEarlierBoot:
		return StateUnknown, EvidenceForeignHost
	case f.origin == originForeignNamespace:
		return StateUnknown, EvidenceForeignNamespace
	case f.process == platform.Exists:
		return StateUnknown, EvidencePIDExists
	}
	return StateUnknown, EvidenceUnproven
}
