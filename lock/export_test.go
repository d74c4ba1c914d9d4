package lock

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Park returns f with a function that is called at each step of the protocol.
func (f File) Park(park func(step string)) File {
	f.park = func(s step) { park(string(s)) }
	return f
}

// Steps of the protocol, in the order in which they are met: where files bear marks, a claim
// is written into a file that is at its path already; elsewhere the file appears with it.
// Windows has no own locks, and nothing is tidied up there.
var (
	AcquireSteps = slices.Concat(siblingSteps, creating(createSteps))
	ReclaimSteps = slices.Concat(siblingSteps, names(stepJudged), creating(markerSteps), names(stepDeadTold, stepReread, stepDeadRemoved, stepMarkerRemoved))
	ReleaseSteps = names(stepOwned, stepRemoved, stepEndTold, stepOwnUnlocked, stepUnlocked)

	// TidySteps are those that a release has beyond the others, if it tidies up.
	TidySteps = where(platform.OwnLocks, names(stepSiblingIdle, stepSiblingRemoved))

	siblingSteps = names(stepSiblingLocked, stepSiblingChecked)
)

// StepClaimed is the last of acquiring: our whole claim is at its path.
var StepClaimed = AcquireSteps[len(AcquireSteps)-1]

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
	StepSiblingLocked = string(stepSiblingLocked)
	StepCreated       = string(stepCreated)
	StepOwnLocked     = string(stepOwnLocked)
	StepChecked       = string(stepChecked)
	StepWritten       = string(stepWritten)
	StepJoined        = string(stepJoined)
	StepJudged        = string(stepJudged)
	StepFound         = string(stepFound)
	StepMarkerCreated = string(stepMarkerCreated)
	StepMarkerLocked  = string(stepMarkerLocked)
	StepMarkerWritten = string(stepMarkerWritten)
	StepDeadTold      = string(stepDeadTold)
	StepReread        = string(stepReread)
	StepDeadRemoved   = string(stepDeadRemoved)
	StepMarkerReread  = string(stepMarkerReread)
	StepOwned         = string(stepOwned)
	StepRemoved       = string(stepRemoved)
	StepEndTold       = string(stepEndTold)
	StepOwnUnlocked   = string(stepOwnUnlocked)
	StepSharedDropped = string(stepSharedDropped)
	StepAlone         = string(stepAlone)
	StepDying         = string(stepDying)
	StepGranted       = string(stepGranted)
	StepBusy          = string(stepBusy)
	StepParks         = string(stepParks)
	StepLooked        = string(stepLooked)
	StepPeeked        = string(stepPeeked)

	StepSiblingIdle    = string(stepSiblingIdle)
	StepSiblingRemoved = string(stepSiblingRemoved)
)

// Those of fallback mode, where a claim is written before it appears.
var (
	FallbackSteps        = names(stepWritten, stepCreated, stepChecked)
	FallbackReclaimSteps = names(stepJudged, stepMarkerWritten, stepMarkerCreated, stepDeadTold, stepRightWritten, stepRightCreated,
		stepReread, stepDeadRemoved, stepMarkerRemoved)
	FallbackReleaseSteps = names(stepOwned, stepRightWritten, stepRightCreated, stepRemoved, stepEndTold, stepOwnUnlocked)
)

func names(of ...step) (names []string) {
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

// ReaderLeaveSteps are those of the last reader's release.
var ReaderLeaveSteps = names(stepSharedDropped, stepAlone, stepRemoved)

// Delays returns the first delays of a wait that looks from time to time, of one for a holder
// without a kernel lock, and of the looks after a wait in the kernel.
func Delays(n int) (poll, alien, looks []time.Duration) {
	p, a, l := newBackoff(maxDelay), newBackoff(maxAlienDelay), newLooks()
	for range n {
		poll, alien, looks = append(poll, p.next()), append(alien, a.next()), append(looks, l.next())
	}
	return poll, alien, looks
}

// LooksAfter returns when a wait for a lock that somebody holds would be looked after next, each
// time that it was.
func LooksAfter(f File, n int) (again []time.Duration, err error) {
	w, err := f.standInLine(context.Background(), platform.Exclusive)
	if err != nil {
		return nil, err
	}
	defer w.leave()
	file, err := w.attempt.openSibling()
	if err == nil {
		_, err = file.Stat()
	}
	if err != nil {
		return nil, err
	}
	parked := &wait{file: file, mode: platform.Exclusive, giveBack: w.attempt.giveBackSibling}
	w.queue.park(atSibling, parked)
	watch := siblingWatch{waiter: w, parked: parked, looks: newLooks()}
	for range n {
		again = append(again, watch.check())
	}
	return again, nil
}

// Jitter is jitter.
var Jitter = jitter

// MaxParked bounds the threads parked in the kernel.
const MaxParked = maxParked

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
	queuesMu.Lock()
	defer queuesMu.Unlock()
	if q := queues[queueKey{path, mode}]; q != nil {
		return q.line.Len()
	}
	return 0
}

// Parked returns how many threads of this process wait in the kernel, and Queues
// how many queues there are.
func Parked() int {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	return parked
}

func Queues() int {
	queuesMu.Lock()
	defer queuesMu.Unlock()
	return len(queues)
}

// InTheWay is what a waiter is told of who is in their way.
func InTheWay(f File) *ErrLocked {
	p, err := f.locate()
	if err != nil {
		panic(err)
	}
	return p.holder()
}

// At returns e as it is when a wait has ended for a cause, and as it is read at
// a time.
func (e ErrLocked) At(now time.Time, cause error) *ErrLocked {
	e.now, e.Cause = now, cause
	return &e
}

// NoteIn returns the note that is in a sibling, whosever it is.
func NoteIn(f File) string {
	p, err := f.locate()
	if err != nil {
		panic(err)
	}
	sibling, err := platform.Open(p.sibling, os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer sibling.Close()
	if m, _ := readMemory(sibling); m.note != nil {
		return m.note.Note
	}
	return ""
}

// EncodeNote and EncodeEnd make what is written into a sibling.
func EncodeNote(nonce string, pid int, note string, at time.Time, after string) ([]byte, error) {
	return encodeNote(noteRecord{Nonce: nonce, PID: pid, Note: note, At: at, After: after})
}

func EncodeEnd(info LockInfo, ended time.Time) []byte {
	_, claim := fitting(info)
	return encodeEnd(claim, ended, EndReleased, "")
}

// Where they lie.
const (
	NoteOffset  = noteOffset
	LastOffset  = lastOffset
	SiblingSize = siblingSize
)

// Remembered decodes what lies in a sibling from the fence on.
func Remembered(data []byte) (note string, p *Predecessor) {
	var m memory
	m.decode(data)
	if m.note != nil {
		note = m.note.Note
	}
	return note, m.predecessor()
}

// EncodeRecord makes a record of any object.
func EncodeRecord(object []byte) []byte { return encodeRecord(object) }

// WidenFolder is widenFolder.
func WidenFolder(path string, mode fs.FileMode) error { return widenFolder(path, mode) }

// Renewal is renewal, by a clock that the test has.
type Renewal struct{ renewal }

func NewRenewal(h *FileHold, now time.Time) *Renewal { return &Renewal{*h.newRenewal(now)} }

func (r *Renewal) Tick(now time.Time) bool { return r.tick(now) }

// Clearing returns how many goroutines look after readers' files.
func Clearing() int {
	clearingMu.Lock()
	defer clearingMu.Unlock()
	return len(clearing)
}

// TryAcquireSharedAnd is TryAcquireShared with a function that is called whenever the reader
// has got the exclusive lock of a file that is there.
func (f File) TryAcquireSharedAnd(ctx context.Context, alone func()) (*FileHold, error) {
	a, err := f.attempt(platform.Shared, observedPatience{impatient{tries: passageTries}, alone})
	if err != nil {
		return nil, err
	}
	return a.acquire(ctx)
}

type observedPatience struct {
	impatient
	alone func()
}

func (p observedPatience) lockOwn(ctx context.Context, a *attempt, f *platform.File, path string, mode platform.Mode) (*platform.File, error) {
	f, err := p.impatient.lockOwn(ctx, a, f, path, mode)
	if err == nil && mode == platform.Exclusive {
		p.alone()
	}
	return f, err
}

// Fitting shortens a claim so that it fits in a record.
func Fitting(c LockInfo) LockInfo { c, _ = fitting(c); return c }
