package claims_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/claims"
)

// world is a proof at which several Managers are at work, and what must be true of
// it according to the published replay, written here once more.
type world struct {
	t        *testing.T
	dir      string
	clock    *clock
	managers []*claims.Manager
	rand     *rand.Rand
}

// TestRandomHistories: whatever several Managers do, in any order, with crashes
// between event and file, and with other programs' events and files in between:
// each answer is what the published rules say, and afterwards events, files and
// Active tell the same.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(testkit.Rounds(6, 3)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			dir, c, m := proof(t)
			w := &world{t, dir, c, []*claims.Manager{m, manager(dir, c), manager(dir, c)}, rand.New(rand.NewPCG(seed, 1))}
			for step := 0; step < 200 && !t.Failed(); step++ {
				w.step(step)
			}
			if t.Failed() {
				t.Logf("the ledger: %q", story(t, dir))
			}
		})
	}
}

func (w *world) step(step int) {
	w.clock.add(time.Duration(w.rand.Int64N(int64(time.Minute))))
	node, owner := fmt.Sprint(w.rand.IntN(4)), string(rune('a'+w.rand.IntN(3)))
	i := w.rand.IntN(len(w.managers))
	if w.rand.IntN(10) == 0 { // a new process
		w.managers[i] = manager(w.dir, w.clock)
	}
	before, had := replay(w.t, w.dir)[node]
	files := w.files()
	n := len(events(w.t, w.dir))

	var name string
	var err, want error
	switch m := w.managers[i]; w.rand.IntN(6) {
	case 0, 1:
		name = "claim"
		_, err = m.Claim(w.t.Context(), node, owner)
		if had && before.ExpiresAt.After(w.clock.now()) {
			want = claims.ErrClaimed
		}
	case 2:
		name = "refresh"
		_, err = m.Refresh(w.t.Context(), node, owner)
		if !had || before.Owner != owner || !before.ExpiresAt.After(w.clock.now()) {
			want = claims.ErrNotOwned
		}
	case 3:
		name = "release"
		err = m.Release(w.t.Context(), node, owner)
		if !had || before.Owner != owner {
			want = claims.ErrNotOwned
		}
	case 4:
		name = "reap"
		var ended []claims.Claim
		ended, err = m.Reap(w.t.Context())
		if got := len(events(w.t, w.dir)) - n; got != len(ended) {
			w.t.Errorf("step %d: %d were ended, with %d events", step, len(ended), got)
		}
		for node, c := range replay(w.t, w.dir) {
			that(w.t, c.ExpiresAt.After(w.clock.now()), "step %d: the claim on %s has expired, and was not reaped", step, node)
		}
	case 5:
		name = "another program"
		w.other(node, owner)
		_, err = m.Reap(w.t.Context())
	}
	if !errors.Is(err, want) || want == nil && err != nil {
		w.t.Errorf("step %d: %s %s by %s: %v, want %v (before: %v)", step, name, node, owner, err, want, before)
	}
	that(w.t, want == nil || len(events(w.t, w.dir)) == n, "step %d: %s was refused, and has written an event", step, name)
	w.check(step, name)
	if w.rand.IntN(3) == 0 {
		w.crash(files)
	}
}

// other has another program append an event, and not care for files.
func (w *world) other(node, owner string) {
	now := w.clock.now().Truncate(time.Second)
	event := fmt.Sprintf(`"timestamp":%q,"node_id":%q,"owner":%q`, now.Format(time.RFC3339), node, owner)
	switch w.rand.IntN(3) {
	case 0:
		appendRaw(w.t, w.dir, fmt.Sprintf(`{"type":"lock_acquired",%s,"expires_at":%q}`, event, now.Add(time.Minute).Format(time.RFC3339)))
	case 1:
		appendRaw(w.t, w.dir, fmt.Sprintf(`{"type":"lock_released",%s}`, event))
	case 2:
		appendRaw(w.t, w.dir, `{"type":"node_created"}`)
	}
}

// check compares what everybody would say now.
func (w *world) check(step int, name string) {
	want := replay(w.t, w.dir)
	if got := inFiles(w.t, w.dir); !maps.EqualFunc(got, want, same) {
		w.t.Errorf("step %d, after %s: files\n%v, want\n%v", step, name, got, want)
	}
	maps.DeleteFunc(want, func(_ string, c claims.Claim) bool { return !c.ExpiresAt.After(w.clock.now()) })
	for _, m := range w.all(step%5 == 0) {
		active, err := m.Active()
		got := map[string]claims.Claim{}
		for _, c := range active {
			got[c.NodeID] = c
		}
		if err != nil || len(active) != len(got) || !maps.EqualFunc(got, want, same) {
			w.t.Errorf("step %d, after %s: active %v, %v, want %v", step, name, active, err, want)
		}
	}
}

// all are the Managers, and with fresh one that reads the ledger from its beginning.
func (w *world) all(fresh bool) []*claims.Manager {
	if fresh {
		return append(slices.Clone(w.managers), manager(w.dir, w.clock))
	}
	return w.managers
}

func (w *world) files() map[string]string {
	files := map[string]string{}
	paths := must(filepath.Glob(lockFile(w.dir, "[0-9]*")))(w.t)
	for _, path := range paths {
		files[path] = read(w.t, path)
	}
	return files
}

// crash undoes what the last operation did to some of the files.
func (w *world) crash(before map[string]string) {
	for node := range 4 {
		if w.rand.IntN(2) == 0 {
			continue
		}
		path := lockFile(w.dir, fmt.Sprint(node))
		if text, ok := before[path]; ok {
			write(w.t, path, text)
		} else if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Fatal(err)
		}
		if w.rand.IntN(2) == 0 {
			write(w.t, filepath.Join(w.dir, "locks", fmt.Sprintf(".%d.lock.holdfast-tmp", node)), "{")
		}
	}
	// What is left must not change what anybody would say.
	want := replay(w.t, w.dir)
	maps.DeleteFunc(want, func(_ string, c claims.Claim) bool { return !c.ExpiresAt.After(w.clock.now()) })
	for _, m := range w.all(w.rand.IntN(5) == 0) {
		active, err := m.Active()
		that(w.t, err == nil && len(active) == len(want), "after a crash: active %v, %v, want %v", active, err, want)
	}
}
