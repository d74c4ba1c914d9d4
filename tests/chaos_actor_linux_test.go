package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/dispatch"
	"github.com/holdfast-go/holdfast/lock/elect"
	"github.com/holdfast-go/holdfast/lock/ledger"
	"github.com/holdfast-go/holdfast/lock/permits"
)

func init() { roles["actor"] = act }

// part is what a process of the chaos is told.
type part struct {
	Engine, Address string
	Board, Bytes    string
	Slot            int
	Seed            uint64
	Acts            []string // which it plays; all that there are, if there are none
	Kind            string   // a program that does not use the library
	HandOn          hand
	MayBeFull       bool
	Fault, Oracle   string // one that is planted, and the only oracle then
}

// The programs that don't use the library.
const (
	kindExcl  = "O_EXCL"
	kindFlock = "flock(1)"
)

// An actor is a process that does at random, again and again, all that can be done with
// locks, until it is killed.
type actor struct {
	part
	*chaosOracle
	rand    *rand.Rand
	lockers []lock.Locker
	fault   fault
	last    uint64 // number of what it has begun
}

// limits are a context that may end at any moment.
type limits struct {
	context.Context
	ends bool
}

func act(args []string) error {
	var r part
	if err := json.Unmarshal([]byte(args[0]), &r); err != nil {
		return err
	}
	o, err := newChaosOracle(r.Board, r.Bytes, r.Slot, r.Oracle)
	if err != nil {
		return err
	}
	a := &actor{part: r, chaosOracle: o, rand: rand.New(rand.NewPCG(r.Seed, 0)), fault: faults[r.Fault]}
	switch r.Kind {
	case kindExcl:
		return a.excl()
	case kindFlock: // has had flock(1) lock the sibling
		a.inside([]int{0}, false, nil)
		return nil
	}
	if a.lockers, err = engines[r.Engine].open(r.Address); err != nil {
		return err
	}
	if r.Acts == nil {
		a.Acts = slices.Sorted(maps.Keys(lockActs))
		if engines[r.Engine].files {
			a.Acts = slices.Concat(a.Acts, slices.Sorted(maps.Keys(fileActs)))
		}
	}
	for {
		a.board.slots[a.me].turn.Add(1)
		a.last++
		what := a.Acts[a.rand.IntN(len(a.Acts))]
		if slowActs[what] && a.rand.IntN(20) > 0 {
			continue
		}
		if a.fault.act != nil && a.rand.IntN(2) == 0 {
			a.fault.act(a)
		}
		a.play(what)
	}
}

func (a *actor) play(what string) {
	plain, cancel := context.Background(), func() {}
	limited := limits{plain, true}
	switch a.rand.IntN(8) {
	case 0, 1:
		limited.Context, cancel = context.WithTimeout(plain, a.duration(20*time.Millisecond))
	case 2:
		limited.Context, cancel = context.WithCancel(plain)
		time.AfterFunc(a.duration(2*time.Millisecond), cancel)
	default:
		limited.ends = false
	}
	defer cancel()
	var err error
	if do := fileActs[what]; do != nil {
		err = do(a, limited)
	} else {
		err = lockActs[what](a, limited, a.rand.IntN(len(a.lockers)))
	}
	if err != nil && !a.expects(limited, err) {
		a.board.breaks("%s: %v", what, err)
	}
}

// errBusy is contention, of something that does not wait.
var errBusy = errors.New("busy")

// expects reports whether an error is one that has to be expected.
func (a *actor) expects(ctx limits, err error) bool {
	var locked *lock.LockedError
	switch {
	case errors.Is(err, errBusy):
		return true
	case errors.Is(err, lock.ErrLost):
		a.board.slots[a.me].lost.Add(1)
		return a.HandOn == handOnAll
	case a.HandOn != noHand && strings.Contains(err.Error(), "keeps being replaced"): // which a try does not outwait
		return true
	case errors.As(err, &locked), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ctx.ends && ctx.Err() != nil
	case a.MayBeFull:
		return errors.Is(err, syscall.ENOSPC)
	}
	return false
}

// tried is the error of what does not wait.
func tried(err error) error {
	if errors.As(err, new(*lock.LockedError)) {
		return errBusy
	}
	return err
}

func (a *actor) duration(most time.Duration) time.Duration {
	return time.Duration(a.rand.Int64N(int64(most)))
}

// dawdle takes as long as it does.
func (a *actor) dawdle() {
	switch n := a.rand.IntN(8); {
	case n < 4:
	case n < 6:
		pass()
	default:
		time.Sleep(a.duration(time.Duration(n*n) * 20 * time.Microsecond))
	}
}

// inside is what is done under locks. Of those that are held alone, holds are as many as
// things, or none.
func (a *actor) inside(things []int, shared bool, holds []lock.Hold) {
	for _, t := range things {
		a.enter(t, shared)
	}
	if shared {
		a.dawdle()
	} else {
		for i, t := range things {
			if holds != nil && t%chaosGroup%2 == 1 && t < 2*chaosGroup {
				a.takeFence(t, holds[i])
			}
			a.count(t, a.dawdle)
		}
	}
	for _, t := range slices.Backward(things) {
		a.leave(t)
	}
}

func (a *actor) takeFence(thing int, h lock.Hold) {
	fence, err := h.Fence()
	switch {
	case err == nil:
		if a.fault.fence != nil {
			fence = a.fault.fence(fence)
		}
		a.fence(thing, fence)
	case !a.expects(limits{}, err):
		a.board.breaks("fence: %v", err)
	}
}

// have is what is done with a lock that came, or did not.
func (a *actor) have(thing int, held lock.Hold, err error) error {
	if err != nil {
		return err
	}
	shared := held.Info().Mode == "shared" // on a filesystem that is not trusted it never is
	if f, ok := held.(*lock.FileHold); ok && !shared && a.rand.IntN(8) == 0 {
		if _, err := f.Predecessor(); err != nil {
			err = errors.Join(err, held.Release())
			return err
		}
		if err := f.Note(fmt.Sprint("turn ", a.last)); err != nil {
			return errors.Join(err, held.Release())
		}
	}
	a.inside([]int{thing}, shared, []lock.Hold{held})
	return held.Release()
}

func chaosKey(n int) lock.Key { return lock.Key{Space: "chaos", Name: fmt.Sprint("lock", n)} }

var (
	poolKey   = lock.Key{Space: "chaos", Name: "pool"}
	leaderKey = lock.Key{Space: "chaos", Name: "leader"}
)

func permitKey(n int) lock.Key {
	return lock.Key{Space: poolKey.Space, Name: fmt.Sprint(poolKey.Name, ".permit-", n)}
}

// lockActs are those that every engine can play. group is which of its lockers it is.
var lockActs = map[string]func(a *actor, ctx limits, group int) error{
	"acquire": func(a *actor, ctx limits, group int) error {
		n := a.rand.IntN(chaosLocks)
		held, err := a.lockers[group].Acquire(ctx, chaosKey(n))
		return a.have(group*chaosGroup+n, held, err)
	},
	"try": func(a *actor, ctx limits, group int) error {
		n := a.rand.IntN(chaosLocks)
		held, err := a.lockers[group].TryAcquire(ctx, chaosKey(n))
		return a.have(group*chaosGroup+n, held, tried(err))
	},
	"share": func(a *actor, ctx limits, group int) error {
		n := a.rand.IntN(chaosLocks)
		l, ok := a.lockers[group].(lock.SharedLocker)
		if !ok {
			return errBusy
		}
		held, err := l.AcquireShared(ctx, chaosKey(n))
		return a.have(group*chaosGroup+n, held, err)
	},
	"try to share": func(a *actor, ctx limits, group int) error {
		n := a.rand.IntN(chaosLocks)
		l, ok := a.lockers[group].(lock.SharedLocker)
		if !ok {
			return errBusy
		}
		held, err := l.TryAcquireShared(ctx, chaosKey(n))
		return a.have(group*chaosGroup+n, held, tried(err))
	},
	"do": func(a *actor, ctx limits, group int) error {
		n := a.rand.IntN(chaosLocks)
		fn := func(_ context.Context, held lock.Hold) error {
			a.inside([]int{group*chaosGroup + n}, held.Info().Mode == "shared", []lock.Hold{held})
			return nil
		}
		switch a.rand.IntN(3) {
		case 0:
			_, err := lock.TryDo(ctx, a.lockers[group], chaosKey(n), fn)
			return err
		case 1:
			if l, ok := a.lockers[group].(lock.SharedLocker); ok {
				return lock.Do(ctx, lock.Readers(l), chaosKey(n), fn)
			}
		}
		return lock.Do(ctx, a.lockers[group], chaosKey(n), fn)
	},
	"acquire keys": func(a *actor, ctx limits, group int) error {
		return a.haveSet(group, false, func(order []int) (*lock.Set, error) {
			var keys []lock.Key
			for _, n := range order {
				keys = append(keys, chaosKey(n))
			}
			return lock.AcquireKeys(ctx, a.lockers[group], keys...)
		})
	},
	"permit": func(a *actor, ctx limits, group int) (err error) {
		pool := permits.New(a.lockers[group], poolKey, chaosPermits)
		var permit *permits.Permit
		if a.rand.IntN(3) == 0 {
			permit, err = pool.TryAcquire(ctx)
			err = tried(err)
		} else {
			permit, err = pool.Acquire(ctx)
		}
		if err != nil {
			return err
		}
		a.inside([]int{group*chaosGroup + chaosLocks + permit.Number() - 1}, false, []lock.Hold{permit})
		return permit.Release()
	},
	"election": func(a *actor, ctx limits, group int) error {
		var failed error
		limited, cancel := context.WithTimeout(ctx, a.duration(300*time.Millisecond))
		defer cancel()
		ctx = limits{limited, true}
		c := elect.Candidate{Locker: a.lockers[group], Key: leaderKey, Failed: func(err error) {
			if !a.expects(ctx, err) {
				failed = err
			}
		}}
		err := c.Run(ctx, func(ctx context.Context) error {
			a.inside([]int{group*chaosGroup + chaosLocks + chaosPermits}, false, []lock.Hold{lock.HoldOf(ctx)})
			return nil
		})
		if err != nil && a.expects(ctx, err) {
			err = errBusy
		}
		return errors.Join(err, failed)
	},
	"list": func(a *actor, ctx limits, group int) error {
		for range a.lockers[group].List(ctx) { // an error is what is just going
		}
		return nil
	},
}

// haveSet is have for several locks of a group.
func (a *actor) haveSet(group int, shared bool, acquire func(order []int) (*lock.Set, error)) error {
	order := a.rand.Perm(chaosLocks)[:2+a.rand.IntN(chaosLocks-1)]
	set, err := acquire(order)
	if err != nil {
		return err
	}
	holds := set.Held()
	var things []int
	for _, n := range slices.Sorted(slices.Values(order)) { // as they are acquired
		things = append(things, group*chaosGroup+n)
	}
	a.inside(things, shared && holds[0].Info().Mode == "shared", holds)
	return set.Release()
}

// slowActs look at all processes, and so are played less often.
var slowActs = map[string]bool{"list": true, "tidy": true}

// fileActs are those that need files.
var fileActs = map[string]func(a *actor, ctx limits) error{
	"acquire all": func(a *actor, ctx limits) error {
		how := a.rand.IntN(4)
		return a.haveSet(0, how > 1, func(order []int) (*lock.Set, error) {
			var files []lock.File
			for _, n := range order {
				f := a.plain().file(chaosKey(n))
				f.Shared = how > 1
				files = append(files, f)
			}
			if how%2 == 0 {
				return lock.AcquireAll(ctx, files...)
			}
			set, err := lock.TryAcquireAll(ctx, files...)
			return set, tried(err)
		})
	},
	"wait": func(a *actor, ctx limits) error {
		return a.plain().file(chaosKey(a.rand.IntN(chaosLocks))).AwaitFree(ctx)
	},
	"break": func(a *actor, ctx limits) error {
		_, err := a.plain().file(chaosKey(a.rand.IntN(chaosLocks))).Break(ctx)
		return tried(err)
	},
	"tidy": func(a *actor, ctx limits) error {
		for _, err := range lock.Tidy(ctx, a.Address, lock.Tidying{}) {
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !a.expects(ctx, err) {
				return err
			}
		}
		return nil
	},
	"update": func(a *actor, ctx limits) error {
		id := a.id()
		err := lock.Update(ctx, updatedAt(a.Address), func(old []byte) ([]byte, error) {
			a.inside([]int{thingUpdated}, false, nil)
			return strconv.AppendUint(append(old, '\n'), id, 10), nil
		})
		if err == nil {
			a.board.report(reportUpdate, id, 0)
		}
		return err
	},
	"append": func(a *actor, ctx limits) error {
		l := ledger.Ledger{Dir: a.Address, Timeout: -1}
		events := make([][]byte, 1)
		if a.rand.IntN(2) == 0 {
			events = make([][]byte, 2+a.rand.IntN(3))
		}
		first := a.last<<3 | uint64(os.Getpid())<<40 // the ids of a batch follow one another
		for i := range events {
			events[i], _ = json.Marshal(chaosEvent{ID: first + uint64(i), First: first, Count: len(events)})
		}
		last, err := int64(0), error(nil)
		if a.rand.IntN(4) == 0 {
			events = events[:1]
			events[0], _ = json.Marshal(chaosEvent{ID: first, First: first, Count: 1})
			if last, err = l.Sequence(); err == nil {
				last, err = l.AppendIfSequence(ctx, events[0], last)
			}
			if errors.Is(err, ledger.ErrSequenceMismatch) {
				err = errBusy
			}
		} else {
			last, err = l.AppendBatch(ctx, events)
		}
		if err != nil {
			return err
		}
		for i := range events {
			a.board.report(reportEvent, first+uint64(i), uint64(last)-uint64(len(events)-1-i))
		}
		return nil
	},
	"ledger": func(a *actor, ctx limits) error {
		return ledger.Ledger{Dir: a.Address, Timeout: -1}.Locked(ctx, func(context.Context, *ledger.Writer) error {
			a.inside([]int{thingLedger}, false, nil)
			return nil
		})
	},
	"dispatch": func(a *actor, ctx limits) error {
		claim, err := dispatch.Locks{Dir: filepath.Join(a.Address, "dispatch")}.Acquire(ctx, "garden")
		if errors.As(err, new(*dispatch.ConflictError)) {
			return errBusy
		} else if err != nil {
			return err
		}
		a.inside([]int{thingDispatched}, false, nil)
		outcome, err := claim.Release()
		if err == nil && outcome != dispatch.OutcomeReleased {
			err = fmt.Errorf("the claim is %s: %w", outcome, lock.ErrLost)
		}
		return err
	},
	"claim": func(a *actor, ctx limits) error {
		// The owner is the slot: who comes after one who was killed goes on with its claims.
		n, owner := a.rand.IntN(chaosNodes), fmt.Sprint("agent-", a.me)
		node := fmt.Sprint("1.", 1+n)
		m := &claims.Manager{Dir: proofAt(a.Address), Ledger: ledger.Ledger{Timeout: -1}}
		_, err := m.Claim(ctx, node, owner)
		var claimed *claims.ClaimedError
		switch {
		case errors.As(err, &claimed) && claimed.Claim.Owner != owner:
			return errBusy
		case errors.As(err, &claimed):
		case err != nil:
			return err
		default:
			a.board.report(reportClaim, a.id(), 0)
		}
		a.inside([]int{thingClaimed + n}, false, nil)
		switch a.rand.IntN(4) {
		case 0:
			_, err = m.Refresh(ctx, node, owner)
			return err
		case 1:
			return nil
		}
		if err := m.Release(ctx, node, owner); err != nil {
			return err
		}
		a.board.report(reportUnclaim, a.id(), 0)
		return nil
	},
}

// id is one that nobody else has.
func (a *actor) id() uint64 { return a.last | uint64(os.Getpid())<<40 }

type chaosEvent struct {
	ID    uint64 `json:"id"`
	First uint64 `json:"first"` // of the batch
	Count int    `json:"count"`
}

// lockFileOf is the lock file of a thing, in a folder.
func lockFileOf(dir string, thing int) string {
	switch thing {
	case thingUpdated:
		return updatedAt(dir) + ".lock"
	case thingLedger:
		return filepath.Join(dir, "ledger", "ledger.lock")
	case thingDispatched:
		return filepath.Join(dir, "dispatch", "garden.lock")
	}
	key := leaderKey
	switch n := thing % chaosGroup; {
	case n < chaosLocks:
		key = chaosKey(n)
	case n < chaosLocks+chaosPermits:
		key = permitKey(1 + n - chaosLocks)
	}
	if thing < chaosGroup {
		return plainLocks{filepath.Join(dir, "plain")}.file(key).Path
	}
	f, _ := lock.Dir{Path: filepath.Join(dir, "keys")}.At(key)
	return f.Path
}

func updatedAt(dir string) string { return filepath.Join(dir, "updated") }
func proofAt(dir string) string   { return filepath.Join(dir, "proof") }

func (a *actor) plain() plainLocks { return plainLocks{filepath.Join(a.Address, "plain")} }

// plainLocks are locks in a folder whose siblings stay.
type plainLocks struct{ dir string }

var _ lock.SharedLocker = plainLocks{}

func (p plainLocks) file(key lock.Key) lock.File {
	return lock.File{Path: filepath.Join(p.dir, key.Name), Cmd: "chaos"}
}

func (p plainLocks) Acquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return asHold(p.file(key).Acquire(ctx))
}

func (p plainLocks) TryAcquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return asHold(p.file(key).TryAcquire(ctx))
}

func (p plainLocks) AcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return asHold(sharing(p.file(key)).Acquire(ctx))
}

func (p plainLocks) TryAcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return asHold(sharing(p.file(key)).TryAcquire(ctx))
}

func (p plainLocks) Inspect(ctx context.Context, key lock.Key) (lock.Status, error) {
	return p.file(key).Inspect(ctx)
}

func (p plainLocks) List(ctx context.Context) iter.Seq2[lock.Status, error] {
	return lock.List(ctx, p.dir)
}

func asHold(h *lock.FileHold, err error) (lock.Hold, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

// excl is a program that knows of a lock only that its file appears exclusively, and is
// removed when done. It never removes another's.
func (a *actor) excl() error {
	for {
		a.board.slots[a.me].turn.Add(1)
		n := 1 + a.rand.IntN(chaosLocks-1) // not what flock(1) goes by: these two don't know of each other
		path := a.plain().file(chaosKey(n)).Path
		claim, err := json.Marshal(map[string]any{"pid": os.Getpid(), "created_at": time.Now().UTC(), "cmd": "other"})
		if err != nil {
			return err
		}
		whole := filepath.Join(a.Address, "others", strconv.Itoa(a.me))
		// One who was killed may have left a lock file under this name, too.
		if err := os.Remove(whole); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(whole, claim, 0o600); err != nil {
			return err
		}
		for wait := time.Millisecond; ; {
			if err := os.Link(whole, path); err == nil {
				break
			} else if !errors.Is(err, fs.ErrExist) {
				return err
			}
			time.Sleep(a.duration(wait))
		}
		if err := os.Remove(whole); err != nil {
			return err
		}
		a.inside([]int{n}, false, nil)
		if err := os.Remove(path); err != nil {
			a.board.breaks("THE LOCK FILE of a program that knows only O_EXCL: %v", err)
		}
	}
}
