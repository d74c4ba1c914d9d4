package command

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
)

// noticeEvery is how long a wait may last before people are told of it, and the time
// between looks for another holder.
const noticeEvery = time.Second

// lookPatience bounds a look at the holder, as signals wait meanwhile.
const lookPatience = 2 * time.Second

// waitNotice is what has been told of a wait.
type waitNotice struct {
	at      locks
	name    string
	permits bool // one of those of the lock is waited for
	told    bool
	holder  holding

	toldPermits bool
}

// holding tells one holding of a lock from another. It leaves out RenewedAt, which a living
// holder changes.
type holding struct {
	pid     int
	created int64
	nonce   string
}

// tellWait names the holder of the lock we wait for, if that is news.
func (a *app) tellWait(ctx context.Context, w *waitNotice) {
	if w.permits {
		a.tellPermits(ctx, w)
		return
	}
	limited, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	status, err := w.at.inspect(limited, w.name)
	switch {
	case err != nil: // it is Acquire's to tell
		return
	case status.State == evidence.Free, status.State == evidence.Dead, w.at.isOurs(status):
		a.tellPermits(ctx, w) // if it is not for those, we are about to have it, or somebody is
		return
	}
	var holder holding
	if h := status.Info; h != nil {
		holder = holding{h.PID, h.CreatedAt.UnixNano(), h.Nonce}
		if h.Nonce != "" { // which tells enough
			holder.created = 0
		}
	}
	if w.told && holder == w.holder {
		return
	}
	w.told, w.holder = true, holder
	a.say("waiting for " + visible(status.Path))
	w.at.words().describe(a.stderr, status)
	if slices.Contains(strings.Split(os.Getenv(lockVar), "\n"), status.Path) && os.Getenv(nonceVar) == "" { // a session may have ended since
		a.more("          holdfast was itself started under this lock (" + lockVar + "): it may be waiting for its own end")
	}
}

// tellPermits names, once, the holders of the permits that we wait for: for one of them, or for
// all.
func (a *app) tellPermits(ctx context.Context, w *waitNotice) {
	if w.toldPermits {
		return
	}
	limited, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	all, err := w.at.permits(limited, w.name)
	if err != nil || len(all) == 0 {
		return
	}
	w.toldPermits = true
	if w.permits {
		a.say("waiting for a permit of " + visible(w.name))
	} else {
		a.say("waiting for " + visible(w.name) + ", as permits of it are held")
	}
	w.at.words().describePermits(a.stderr, all)
}
