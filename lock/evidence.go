package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Verdict is the judgement on the holder that a lock file names.
type Verdict string

const (
	Alive   Verdict = "alive"
	Dead    Verdict = "dead"
	Unknown Verdict = "unknown" // treated as alive by everyone
)

// Evidence is the fact that decided a Verdict, in words for people. The texts
// are part of the interface: programs may compare them.
type Evidence string

const (
	// Alive.
	KernelLockHeld Evidence = "kernel lock held"
	OthersWait     Evidence = "others wait for the lock"
	// BeingReclaimed is also Unknown, when the marker's owner is.
	BeingReclaimed Evidence = "its marker, the file beside it that ends in .reclaim, is another process's"
	SameProcess    Evidence = "the process that wrote the claim is running"

	// Dead.
	KernelLockFree   Evidence = "kernel lock free"
	Incomplete       Evidence = "died while claiming"
	ProcessGone      Evidence = "process gone"
	PIDReused        Evidence = "pid reused by another process"
	MachineRestarted Evidence = "machine restarted"
	PowerLost        Evidence = "nothing but NULs, which a loss of power leaves"
	Aged             Evidence = "older than the allowed age"

	// Unknown.
	NotALockFile     Evidence = "not a lock file"
	Unreadable       Evidence = "claim unreadable"
	ForeignHost      Evidence = "claim from another host"
	ForeignNamespace Evidence = "claim from another pid namespace"
	PIDExists        Evidence = "a process has the claim's pid, but may be another one"
	Unproven         Evidence = "nothing proves the holder dead"
	OtherNonce       Evidence = "the claim has another nonce"
)

// kernelFact is what is known of the kernel lock on the sibling.
type kernelFact uint8

const (
	kernelUnknown kernelFact = iota // fallback mode, or it may not be looked at
	kernelFree                      // we hold it, or were just given it
	kernelHeld                      // another open file holds it
)

// claimFact is what the lock file holds.
type claimFact uint8

const (
	claimReadable   claimFact = iota
	claimUnreadable           // garbage, or not permitted
	claimIncomplete           // marked as being written
	claimAlien                // not a regular file, or far too large
)

// originFact is where a readable claim was made, seen from here.
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
	claim   claimFact

	// Of a readable claim:
	origin      originFact
	process     platform.Liveness // meaningful if originHere
	sameSibling bool              // made under the kernel lock of this very sibling
	underLock   bool              // made under some sibling's kernel lock
	shared      bool              // by the first of several readers

	nuls       bool // the file holds nothing but NULs, and at least one
	age        time.Duration
	staleAfter time.Duration // negative: age proves nothing
}

// cannotAge: a holder in another pid namespace that has a kernel lock does not renew
// its claim, however long it lives. That its kernel lock can't be seen only means
// that the sibling was removed, which nobody must.
func (f facts) cannotAge() bool {
	return f.trusted && f.claim == claimReadable && f.origin == originForeignNamespace && f.underLock
}

// judge is the ladder of evidence: the first rung that holds decides. Nothing
// else in this package calls a holder dead.
func judge(f facts) (Verdict, Evidence) {
	readable := f.claim == claimReadable
	here := readable && f.origin == originHere
	proof := f.kernel == kernelFree && f.trusted
	own := proof && readable && f.sameSibling

	switch {
	// 0. Whoever holds the kernel lock lives.
	case f.kernel == kernelHeld:
		return Alive, KernelLockHeld
	// What no participant writes is nobody's to remove.
	case f.claim == claimAlien:
		return Unknown, NotALockFile
	// 1. Two proofs must not contradict each other; fail closed. (A shared
	// claim outlives the reader who wrote it, until the last reader is gone.)
	case here && f.process == platform.Alive && !(own && f.shared):
		return Alive, SameProcess
	// 2. Made under the kernel lock that is free now.
	case own:
		return Dead, KernelLockFree
	// 3. A claim is written under the kernel lock.
	case proof && f.claim == claimIncomplete:
		return Dead, Incomplete
	// 4. The pid's own evidence.
	case here && f.process == platform.Gone:
		return Dead, ProcessGone
	case here && f.process == platform.Replaced:
		return Dead, PIDReused
	// 5. Nothing on a local filesystem survives a restart but files; and nothing but
	// a loss of power leaves one of NULs. (The file's time says nothing: a clock that
	// is set forward makes every file look older than the boot.)
	case proof && readable && f.origin == originEarlierBoot:
		return Dead, MachineRestarted
	case proof && f.claim == claimUnreadable && f.nuls:
		return Dead, PowerLost
	// 6. What proves nothing ages, where the caller allows age.
	case f.staleAfter >= 0 && f.age > f.staleAfter && !f.cannotAge():
		return Dead, Aged
	}
	// 7. Locked; the rest only says why.
	switch {
	case !readable:
		return Unknown, Unreadable
	case f.origin == originForeignHost, f.origin == originEarlierBoot:
		return Unknown, ForeignHost
	case f.origin == originForeignNamespace:
		return Unknown, ForeignNamespace
	case f.process == platform.Exists:
		return Unknown, PIDExists
	}
	return Unknown, Unproven
}
