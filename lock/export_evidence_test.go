package lock

import (
	"reflect"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Facts are the facts that the ladder judges.
type Facts struct {
	Kernel     kernelFact
	Trusted    bool
	Content    contentFact
	Origin     originFact
	Process    platform.Liveness
	Marked     bool
	NULs       bool
	Released   bool
	Began      bool
	UnderLock  bool
	SameKind   bool
	Copied     bool
	Shared     bool
	Age        time.Duration
	StaleAfter time.Duration
}

const (
	KernelUnknown = kernelUnknown
	KernelFree    = kernelFree
	KernelHeld    = kernelHeld

	ContentClaim     = contentClaim
	ContentNone      = contentNone
	ContentAlien     = contentAlien
	ContentForbidden = contentForbidden
	ContentLeased    = contentLeased

	ForeignHostOrigin      = originForeignHost
	ForeignNamespaceOrigin = originForeignNamespace
	EarlierBootOrigin      = originEarlierBoot
	HereOrigin             = originHere

	MaxClaim = maxClaim
	MaxCmd   = maxCmd
)

// FactNames are those of all facts that the ladder looks at.
func FactNames() (names []string) {
	facts := reflect.TypeFor[facts]()
	for i := range facts.NumField() {
		names = append(names, facts.Field(i).Name)
	}
	return names
}

// Judge is the ladder of evidence.
func Judge(f Facts) (State, Evidence) {
	return judge(facts{
		kernel: f.Kernel, trusted: f.Trusted, content: f.Content, origin: f.Origin, process: f.Process,
		marked: f.Marked, nuls: f.NULs, released: f.Released, began: f.Began, underLock: f.UnderLock,
		sameKind: f.SameKind, copied: f.Copied, shared: f.Shared,
		age: f.Age, staleAfter: f.StaleAfter,
	})
}

func DecodeClaim(data []byte) (*LockInfo, error) {
	c, err := decodeClaim(data)
	if err != nil {
		return nil, err
	}
	return &c.LockInfo, nil
}
func EncodeClaim(c *LockInfo) ([]byte, error) { return c.encode(nil) }

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
