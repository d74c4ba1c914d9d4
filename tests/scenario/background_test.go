package scenario

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

func mustBeLocked(t *testing.T, err error) {
	t.Helper()
	that(t, errors.As(err, new(*lock.LockedError)), "error is %v, want contention", err)
}

func TestBackgroundThreadLockPattern(t *testing.T) {
	t.Run("Background thread encounters locked agent", func(t *testing.T) { onEachEngine(t, busyAgent) })
	t.Run("Reaper commit-inside-lock", func(t *testing.T) { onEachEngine(t, reaper) })
}

// busyAgent: it is skipped, and no other is; and the next cycle does not skip it.
func busyAgent(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	one.create("x", "y")
	in := one.pauseAt("process h1 of x")
	first := one.hook("stop", "x", "h1")
	in.wait()
	cycle := func(want ...string) {
		t.Helper()
		for worker := range Workers {
			if skipped, err := two.Cycle(two.ctx(), worker); err != nil || !slices.Equal(skipped, want) {
				t.Errorf("%s skips %q (%v), want %q", worker, skipped, err, want)
			}
		}
	}
	cycle("x")
	close(in.resume)
	ok(t, first)
	cycle()
	for worker := range Workers {
		if x, y := one.read("x").Tended[worker], one.read("y").Tended[worker]; x != 1 || y != 2 {
			t.Errorf("%s has tended x %d times, y %d", worker, x, y)
		}
	}
	equal(t, len(two.waits), 0, "a worker has waited")
}

// reaper: each agent has a cycle of its own. The locks' pool has fewer connections
// than there are agents, so each gives its own back.
func reaper(t *testing.T, s site) {
	small := s
	small.Pool = "pool_max_conns=3"
	one, two := open(t, small, "one"), open(t, s, "two")
	agents := []string{"v", "w", "x", "y", "z"}
	one.create(agents...)
	for _, id := range agents {
		ok(t, one.hook("session-end", id, "end"))
	}
	one.onEvent = func(_, id string) { // it has committed, and is not out of the lock
		if got := two.read(id); !got.Reaped {
			t.Errorf("%s is not committed: %+v", id, got)
		}
		for _, other := range agents {
			equal(t, two.free(other), (other != id), "in the lock of", id, "that of", other, "is free:", other == id)
		}
	}
	if skipped, err := one.Cycle(one.ctx(), "agent-reaper"); err != nil || skipped != nil {
		t.Errorf("it skips %q (%v)", skipped, err)
	}
	for _, id := range agents {
		if !two.free(id) || one.has("agent-reaper "+id) != 1 {
			t.Errorf("%s: free %v, reaped %d times", id, two.free(id), one.has("agent-reaper "+id))
		}
	}
}

func TestDeferredStop(t *testing.T) {
	t.Run("Deferred stop after session_end completes command", func(t *testing.T) { onEachEngine(t, sessionEndFirst) })
	t.Run("Deferred stop completes before session_end", func(t *testing.T) { onEachEngine(t, deferredStopFirst) })
}

// stopLater begins a command, and leaves its deferred stop asleep, with no lock.
func stopLater(t *testing.T, s site) (one, two *stage) {
	one, two = open(t, s, "one"), open(t, s, "two")
	one.create("x")
	ok(t, one.hook("user-prompt-submit", "x", "command"))
	ok(t, one.hook("stop", "x", "stop"))
	within(t, "the sleep", one.asleep)
	that(t, two.free("x"), "it sleeps in the lock")
	return one, two
}

// completedOnce checks who completed the command.
func completedOnce(t *testing.T, one, two *stage, by string) {
	t.Helper()
	if n := one.has("completed command") + two.has("completed command"); n != 1 {
		t.Errorf("it was completed %d times", n)
	}
	if c := one.read("x").Commands; len(c) != 1 || !c[0].Complete || c[0].CompletedBy != by {
		t.Errorf("commands are %+v, completed by %s", c, by)
	}
}

func sessionEndFirst(t *testing.T, s site) {
	one, two := stopLater(t, s)
	ok(t, two.hook("session-end", "x", "end"))
	one.wake <- struct{}{}
	one.waitStops()
	equal(t, one.has("process deferred-stop of x"), 1, "it did not come")
	completedOnce(t, one, two, "two/session-end")
}

func deferredStopFirst(t *testing.T, s site) {
	one, two := stopLater(t, s)
	in := one.pauseAt("process deferred-stop of x")
	one.wake <- struct{}{}
	in.wait()
	end := two.hook("session-end", "x", "end")
	within(t, "the wait", two.waits)
	close(in.resume)
	one.waitStops()
	ok(t, end)
	completedOnce(t, one, two, "one/deferred-stop")
}

func TestSummarisationDedup(t *testing.T) {
	t.Run("Concurrent summarisation attempts", func(t *testing.T) { onEachEngine(t, summariseTwice) })
	t.Run("Turn already summarised", func(t *testing.T) { onEachEngine(t, summarised) })
	t.Run("Killed during the call", func(t *testing.T) { onEachEngine(t, killedSummariser) })
}

func (st *stage) summarise(turn, want string) {
	st.t.Helper()
	if got, err := st.Summarise(st.ctx(), turn); err != nil || got != want {
		st.t.Errorf("summary is %q (%v), want %q", got, err, want)
	}
}

// summariseTwice: the second returns at once, and makes no call; be it of another
// process or of this one.
func summariseTwice(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	one.create("x")
	ok(t, one.hook("user-prompt-submit", "x", "turn"))
	in := one.pauseAt("call turn")
	first := make(chan struct{})
	go func() {
		one.summarise("turn", "in short: text of turn")
		close(first)
	}()
	in.wait()
	two.summarise("turn", "")
	one.summarise("turn", "")
	close(in.resume)
	within(t, "the first", first)
	equal(t, one.has("call turn")+two.has("call turn"), 1, "calls")
}

func summarised(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	one.create("x")
	ok(t, one.hook("user-prompt-submit", "x", "turn"))
	for range 2 {
		one.summarise("turn", "in short: text of turn")
		two.summarise("turn", "in short: text of turn")
	}
	equal(t, one.has("call turn")+two.has("call turn"), 1, "calls")
}

// killedSummariser: its turn is another's once it is dead, and not before.
func killedSummariser(t *testing.T, s site) {
	one := open(t, s, "one")
	check(t, one.Store.AddTurn(t.Context(), Turn{ID: doomed, Prompt: "text"}))
	two := start(t, s, "two")
	two.Answer()
	one.summarise(doomed, "")
	two.Kill()
	ctx := one.ctx()
	for ; ; time.Sleep(time.Millisecond) { // a server notices when it notices
		if got, err := one.Summarise(ctx, doomed); err != nil || got == "in short: text" {
			if n := one.has("call doomed"); err != nil || n != 1 {
				t.Errorf("%d calls (%v)", n, err)
			}
			return
		}
	}
}

func TestSkillInjector(t *testing.T) {
	t.Run("Stale ORM read prevention", func(t *testing.T) { onEachEngine(t, staleRead) })
}

// staleRead: who read the agent before somebody else injected does not inject again,
// during and after.
func staleRead(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	one.create("x")
	stale := two.read("x")
	inject := func(st *stage) {
		noErr(t, st.InjectSkills(st.ctx(), stale))
	}
	in, first := one.pauseAt("inject x"), make(chan struct{})
	go func() {
		inject(one)
		close(first)
	}()
	in.wait()
	inject(two)
	close(in.resume)
	within(t, "the first", first)
	inject(two)
	if two.has("process skill-injector of x") != 1 || one.has("inject x") != 1 || two.has("inject x") != 0 {
		t.Errorf("one did %q, two %q", one.done, two.done)
	}
}

func TestConfigEditor(t *testing.T) {
	t.Run("Concurrent config saves", func(t *testing.T) { onEachEngine(t, configSaves) })
}

// configSaves: the second waits, and merges into what the first has written.
func configSaves(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	in := one.pauseAt("process a of config")
	errs := make(chan error, 2)
	ctx := one.ctx()
	go func() { errs <- one.SaveConfig(ctx, "a", "1") }()
	in.wait()
	go func() { errs <- two.SaveConfig(ctx, "b", "2") }()
	waitsFor(t, s.Dir, one.Config)
	equal(t, two.has("process b of config"), 0, "the second is at it beside the first")
	close(in.resume)
	for range 2 {
		noErr(t, within(t, "the save", errs))
	}
	config := map[string]string{}
	data, err := os.ReadFile(one.Config)
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	that(t, err == nil && len(config) == 2 && config["a"] == "1" && config["b"] == "2", "config is %s (%v)", data, err)
}

// waitsFor returns when somebody waits for the lock of a file in a folder, where the
// kernel tells.
func waitsFor(t *testing.T, folder, file string) {
	t.Helper()
	locks := lock.Dir{Path: filepath.Dir(folder)}
	key := lock.Key{Space: filepath.Base(folder), Name: filepath.Base(file)}
	for deadline := time.Now().Add(patience); runtime.GOOS == "linux"; time.Sleep(time.Millisecond) {
		if s, err := locks.Inspect(t.Context(), key); err == nil && len(s.Waiters) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for the file")
		}
	}
}
