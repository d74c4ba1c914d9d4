package lock

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/lock/internal/queue"
	"github.com/holdfast-go/holdfast/lock/internal/record"
	"github.com/holdfast-go/holdfast/platform"
)

// Park returns f with a function that is called at each step of the protocol.
func (f File) Park(park func(step string)) File {
	f.park = park
	return f
}

// Steps of the protocol, in the order in which they are met: where files bear marks, a claim
// is written into a file that is at its path already; elsewhere the file appears with it.
// Windows has no own locks, and nothing is tidied up there.
var (
	AcquireSteps = slices.Concat(siblingSteps, creating(createSteps))
	ReclaimSteps = slices.Concat(siblingSteps, names(lockfile.StepJudged), creating(markerSteps), names(lockfile.StepDeadTold, lockfile.StepReread, lockfile.StepDeadRemoved, lockfile.StepMarkerRemoved))
	ReleaseSteps = names(lockfile.StepOwned, lockfile.StepRemoved, stepEndTold, lockfile.StepOwnUnlocked, stepUnlocked)

	// TidySteps are those that a release has beyond the others, if it tidies up.
	TidySteps = where(platform.OwnLocks, names(queue.Idle, queue.Removed))

	siblingSteps = names(stepSiblingLocked, stepSiblingChecked)
)

// StepClaimed is the last of acquiring: our whole claim is at its path.
var StepClaimed = AcquireSteps[len(AcquireSteps)-1]

// steps are those of making one file.
type steps struct{ created, locked, checked, written string }

var (
	createSteps = steps{lockfile.StepCreated, lockfile.StepOwnLocked, lockfile.StepChecked, lockfile.StepWritten}
	markerSteps = steps{lockfile.StepMarkerCreated, lockfile.StepMarkerLocked, lockfile.StepMarkerChecked, lockfile.StepMarkerWritten}
)

func creating(s steps) []string {
	if platform.KeepsMarks {
		locked := where(platform.OwnLocks, names(s.locked))
		return slices.Concat(names(s.created), locked, names(s.checked, s.written))
	}
	return names(s.locked, s.written, s.created, s.checked)
}

func where(met bool, steps []string) []string {
	if met {
		return steps
	}
	return nil
}

// Unclaimed reports whether at a step a file is at its path, and has no claim yet: only its
// mark tells what it is.
func Unclaimed(step string) bool {
	c, m := createSteps, markerSteps
	return platform.KeepsMarks && slices.Contains(names(c.created, c.locked, c.checked, m.created, m.locked, m.checked), step)
}

// Single ones of them.
const (
	StepSiblingLocked = stepSiblingLocked
	StepCreated       = lockfile.StepCreated
	StepPublished     = lockfile.StepPublished
	StepFoundLocked   = lockfile.StepFoundLocked
	StepOwnLocked     = lockfile.StepOwnLocked
	StepChecked       = lockfile.StepChecked
	StepWritten       = lockfile.StepWritten
	StepJoined        = lockfile.StepJoined
	StepJudged        = lockfile.StepJudged
	StepFound         = lockfile.StepFound
	StepMarkerCreated = lockfile.StepMarkerCreated
	StepMarkerLocked  = lockfile.StepMarkerLocked
	StepMarkerWritten = lockfile.StepMarkerWritten
	StepDeadTold      = lockfile.StepDeadTold
	StepReread        = lockfile.StepReread
	StepDeadRemoved   = lockfile.StepDeadRemoved
	StepMarkerReread  = lockfile.StepMarkerReread
	StepOwned         = lockfile.StepOwned
	StepRemoved       = lockfile.StepRemoved
	StepEndTold       = stepEndTold
	StepOwnUnlocked   = lockfile.StepOwnUnlocked
	StepSharedDropped = lockfile.StepSharedDropped
	StepAlone         = lockfile.StepAlone
	StepDying         = lockfile.StepDying
	StepGranted       = queue.Granted
	StepBusy          = lockfile.StepBusy
	StepParks         = queue.Parks
	StepLooked        = queue.Looked
	StepPeeked        = lockfile.StepPeeked

	StepSiblingIdle    = queue.Idle
	StepSiblingRemoved = queue.Removed
)

// Those of fallback mode, where a claim is written before it appears.
var (
	FallbackSteps        = names(lockfile.StepWritten, lockfile.StepCreated, lockfile.StepChecked)
	FallbackReclaimSteps = names(lockfile.StepJudged, lockfile.StepMarkerWritten, lockfile.StepMarkerCreated, lockfile.StepDeadTold, lockfile.StepRightWritten, lockfile.StepRightCreated,
		lockfile.StepReread, lockfile.StepDeadRemoved, lockfile.StepMarkerRemoved)
	FallbackReleaseSteps = names(lockfile.StepOwned, lockfile.StepRightWritten, lockfile.StepRightCreated, lockfile.StepRemoved, stepEndTold, lockfile.StepOwnUnlocked)
)

func names(of ...string) []string { return of }

// Preparing counts the goroutines that make lock files for those that wait.
func Preparing() int { return lockfile.Preparing() }

// Unprepared returns f as one whose waiters make their lock files step by step.
func (f File) Unprepared() File {
	f.unprepared = true
	return f
}

// WithoutKernelLock returns f in fallback mode.
func (f File) WithoutKernelLock() File {
	f.noKernelLock = true
	return f
}

// ReaderLeaveSteps are those of the last reader's release.
var ReaderLeaveSteps = names(lockfile.StepSharedDropped, lockfile.StepAlone, lockfile.StepRemoved)

// QueueLen returns how many goroutines of this process are queued for a lock.
func QueueLen(f File, shared bool) int {
	path, err := filepath.Abs(f.Path)
	if err != nil {
		panic(err)
	}
	mode := platform.Exclusive
	if shared {
		mode = platform.Shared
	}
	return lines.Len(path, mode)
}

// Parked returns how many threads of this process wait in the kernel, and Queues how many
// lines there are.
func Parked() int { return lines.Parked() }

func Queues() int { return lines.Count() }

// InTheWay is what a waiter is told of who is in their way.
func InTheWay(f File) *LockedError {
	p, err := f.locate()
	if err != nil {
		panic(err)
	}
	return p.holder()
}

// At returns e as it is when a wait has ended for a cause, and as it is read at
// a time.
func (e LockedError) At(now time.Time, cause error) *LockedError {
	e.now, e.Cause = now, cause
	return &e
}

// NoteIn returns the note that is in a sibling, whosever it is.
func NoteIn(f File) string {
	p, err := f.locate()
	if err != nil {
		panic(err)
	}
	sibling, err := platform.Open(p.sibling.Path, os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer sibling.Close()
	m, err := record.Read(sibling)
	if r := m.Last(nil); err == nil && r != nil {
		return r.Note
	}
	return ""
}

// WidenFolder is widenFolder.
func WidenFolder(path string, mode fs.FileMode, made time.Time) error {
	return widenFolder(path, mode, made)
}

// Renewal is renewal, by a clock that the test has.
type Renewal struct{ renewal }

func NewRenewal(h *FileHold, now time.Time) *Renewal { return &Renewal{*h.newRenewal(now)} }

func (r *Renewal) Tick(now time.Time) bool { return r.tick(now) }

// Clearing returns how many goroutines look after readers' files.
func Clearing() int {
	return clearing.Count()
}

// TryAcquireSharedAnd is TryAcquireShared with a function that is called whenever the reader
// has got the exclusive lock of a file that is there.
func (f File) TryAcquireSharedAnd(ctx context.Context, alone func()) (*FileHold, error) {
	a, err := f.attempt(platform.Shared, observedPatience{impatient(pace.Tries), alone})
	if err != nil {
		return nil, err
	}
	return a.acquire(ctx)
}

type observedPatience struct {
	impatient
	alone func()
}

func (p observedPatience) waiter() lockfile.Waiter { return p }

func (p observedPatience) LockOwn(ctx context.Context, f *platform.File, path string, mode platform.Mode) (*platform.File, error) {
	err := new(lockfile.Lock).LockSoon(ctx, f, path, mode, pace.Tries)
	if err == nil && mode == platform.Exclusive {
		p.alone()
	}
	return f, err
}

// WithNoticeAfter returns f with another time after which a wait is told of again.
func (f File) WithNoticeAfter(d time.Duration) File {
	f.noticeAfter = d
	return f
}
