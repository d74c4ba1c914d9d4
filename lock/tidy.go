package lock

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/queue"
	"github.com/holdfast-go/holdfast/lock/internal/record"
	"github.com/holdfast-go/holdfast/platform"
)

// tidying says which siblings are removed.
type tidying struct {
	before      time.Time // those written before; zero: of any age
	fenceBefore time.Time // of those with a fence, those whose fence was given before; zero: none
	dry         bool      // none, really
	dead        bool      // ... as if the lock file, a dead holder's, had gone
}

// Why files stay, beside what package queue has.
const (
	keptYoung     queue.Kept = "it was written not long ago"
	keptFence     queue.Kept = "it has a fence, which was given not long ago"
	keptBadFence  queue.Kept = "its fence is out of all reason: " + record.BeginAnew
	keptDeath     queue.Kept = "it tells of a holder's death, which nobody has heard of"
	keptAlien     queue.Kept = "nothing shows that it is holdfast's"
	keptUntrusted queue.Kept = "kernel locks prove nothing on this filesystem"
)

// A tidier is what the queue asks before a sibling goes.
type tidier struct {
	place *place
	which tidying
}

func (p *place) tidier() queue.Tidier { return (*plainTidier)(p) }

// plainTidier is a tidier that spares nothing for its age. It is the place, so that who waits
// allocates nothing for it.
type plainTidier place

func (t *plainTidier) tidier() tidier                             { return tidier{place: (*place)(t)} }
func (t *plainTidier) IsDry() bool                                { return false }
func (t *plainTidier) HasLockFile() (bool, error)                 { return t.tidier().HasLockFile() }
func (t *plainTidier) Needs(f *platform.File) (queue.Kept, error) { return t.tidier().Needs(f) }

func (t tidier) IsDry() bool { return t.which.dry }

func (t tidier) HasLockFile() (bool, error) {
	_, _, err := platform.Look(t.place.file.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && t.which.dead {
		return false, nil
	}
	return err == nil, err
}

func (t tidier) Needs(f *platform.File) (queue.Kept, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	is, m, err := isSibling(f, info)
	last := m.Last(nil)
	switch fence := m.Fence; {
	case err != nil:
		return "", err
	case !is:
		return keptAlien, nil
	// An old fence is less than the time of day, from which the next one goes on: only a clock
	// that is set back by more could rewind it.
	case fence > 0 && (t.which.fenceBefore.IsZero() || fence >= t.which.fenceBefore.UnixMicro()):
		if _, err := engine.NextFence(fence, t.place.Now()); err != nil {
			return keptBadFence, nil
		}
		return keptFence, nil
	// The lock was cleared away by somebody that leaves no word of itself: a reader, a Break, a
	// cancelled Acquire. The next holder has not learned of the death.
	case t.which.fenceBefore.IsZero() && last != nil && (last.How == string(EndDied) || last.How == string(EndPresumed)):
		return keptDeath, nil
	case !t.which.before.IsZero() && !info.Modified.Before(t.which.before):
		return keptYoung, nil
	}
	return "", nil
}

// isSibling reports whether an open file shows that holdfast made it as a sibling: by the
// mark, or by what a holder wrote into it. Where no file can bear a mark, an empty file
// counts: there is only the caller's word for the path.
func isSibling(f *platform.File, info platform.Info) (is bool, m record.Memory, err error) {
	m, err = record.Read(f)
	return err == nil && !m.Alien && (info.Marked() || m.IsWritten() || !platform.KeepsMarks), m, err
}

// hasSibling reports whether what lies at the sibling's path shows that holdfast made it.
func (p *place) hasSibling() bool {
	f, err := platform.Open(p.sibling.Path, os.O_RDONLY)
	if err != nil {
		return false
	}
	is, info := false, platform.Info{}
	if info, err = f.Stat(); err == nil {
		is, _, err = isSibling(f, info)
	}
	return fail.Join(err, f.Close()) == nil && is
}
