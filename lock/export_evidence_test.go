package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Facts are the facts that the ladder judges.
type Facts struct {
	Kernel      kernelFact
	Trusted     bool
	Claim       claimFact
	Origin      originFact
	Process     platform.Liveness
	SameSibling bool
	Shared      bool
	NULs        bool
	Age         time.Duration
	StaleAfter  time.Duration
}

const (
	KernelUnknown = kernelUnknown
	KernelFree    = kernelFree
	KernelHeld    = kernelHeld

	ClaimReadable   = claimReadable
	ClaimUnreadable = claimUnreadable
	ClaimIncomplete = claimIncomplete
	ClaimAlien      = claimAlien

	ForeignHostOrigin      = originForeignHost
	ForeignNamespaceOrigin = originForeignNamespace
	EarlierBootOrigin      = originEarlierBoot
	HereOrigin             = originHere

	MaxClaim = maxClaim
	MaxCmd   = maxCmd
)

// Judge is the ladder of evidence.
func Judge(f Facts) (Verdict, Evidence) {
	return judge(facts{
		kernel: f.Kernel, trusted: f.Trusted, claim: f.Claim, origin: f.Origin, process: f.Process,
		sameSibling: f.SameSibling, shared: f.Shared, nuls: f.NULs,
		age: f.Age, staleAfter: f.StaleAfter,
	})
}

func DecodeClaim(data []byte) (*LockInfo, error) { return decodeClaim(data) }
func EncodeClaim(c *LockInfo) ([]byte, error)    { return c.encode(nil) }

// WithClock returns f with another clock, as RepoLock.Now gives it one.
func (f File) WithClock(now func() time.Time) File {
	f.clock = now
	return f
}

// WithPIDAlive returns f with another check on pids, as RepoLock.IsPIDAlive gives
// it one.
func (f File) WithPIDAlive(alive func(int) bool) File {
	f.pidAlive = alive
	return f
}
