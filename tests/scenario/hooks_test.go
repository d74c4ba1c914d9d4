package scenario

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHookRouteSerialisation is a requirement of the agent service, as the others here are, and
// its subtests are its scenarios.
func TestHookRouteSerialisation(t *testing.T) {
	t.Run("Concurrent hooks for same agent", func(t *testing.T) { onEachEngine(t, sameAgent) })
	t.Run("All eight mutating routes", func(t *testing.T) { onEachEngine(t, allRoutes) })
	t.Run("Up to 15s timeout", func(t *testing.T) { onEachEngine(t, timeout) })
	t.Run("Hooks for different agents", func(t *testing.T) { onEachEngine(t, differentAgents) })
	t.Run("Read-only hook route", func(t *testing.T) { onEachEngine(t, readOnly) })
}

// sameAgent: the second waits until the first is over, and sees what it did.
func sameAgent(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	one.create("x")
	in := one.pauseAt("process h1 of x")
	first := one.hook("pre-tool-use", "x", "h1")
	in.wait()
	second := two.hook("notification", "x", "h2")
	within(t, "the wait", two.waits)
	equal(t, two.has("process h2 of x"), 0, "the second is processed beside the first")
	close(in.resume)
	equal(t, ok(t, first).Events, 1, "the first answers")
	if got := ok(t, second); got.Events != 2 || !slices.Equal(got.Seen, []string{"h1", "h2"}) || got.Tool != "text of h1" || !got.Waiting {
		t.Errorf("the second answers %+v", got)
	}
}

// allRoutes: there are eight, and each waits for the lock.
func allRoutes(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	one.create("x")
	if len(routes) != 8 {
		t.Errorf("there are %d routes", len(routes))
	}
	held := must(one.Locks.Acquire(one.ctx(), agentLock("x")))(t)
	defer held.Release() // closing the locks waits for it
	answers := map[string]<-chan response{}
	for route := range routes {
		answers[route] = two.hook(route, "x", route)
		within(t, "the wait of "+route, two.waits)
	}
	equal(t, len(one.read("x").Seen), 0, "were processed without the lock")
	noErr(t, held.Release())
	for _, answer := range answers {
		ok(t, answer)
	}
	if got := one.read("x"); got.Events != len(routes) || len(got.Seen) != len(routes) {
		t.Errorf("afterwards: %+v", got)
	}
}

// timeout: who has waited for long enough is told to come again, and has changed
// nothing.
func timeout(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	one.create("x")
	equal(t, two.HookTimeout, 15*time.Second, "a hook waits for")
	two.HookTimeout = 50 * time.Millisecond
	in := one.pauseAt("process h1 of x")
	first := one.hook("stop", "x", "h1")
	in.wait()
	got := within(t, "the answer", two.hook("session-end", "x", "h2"))
	if got.status != http.StatusServiceUnavailable || got.retryAfter == "" || !strings.Contains(got.body, "timed out") {
		t.Errorf("answer is %+v", got)
	}
	close(in.resume)
	ok(t, first)
	if got := one.read("x"); got.Events != 1 || got.Ended {
		t.Errorf("afterwards: %+v", got)
	}
	two.HookTimeout = HookTimeout
	equal(t, ok(t, two.hook("session-end", "x", "h2")).Events, 2, "the second time it answers")
}

// differentAgents: each is inside while the other is, in one process and in two.
func differentAgents(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	one.create("x", "y", "z")
	var pauses []*pause
	var answers []<-chan response
	for agent, st := range map[string]*stage{"x": one, "y": one, "z": two} {
		pauses = append(pauses, st.pauseAt("process h of "+agent))
		answers = append(answers, st.hook("stop", agent, "h"))
	}
	for _, p := range pauses {
		p.wait()
	}
	for i, p := range pauses {
		close(p.resume)
		ok(t, answers[i])
	}
	equal(t, len(one.waits)+len(two.waits), 0, "have waited")
}

// readOnly: it answers while a hook is being processed, and without a lock.
func readOnly(t *testing.T, s site) {
	one, two := open(t, s, "one"), open(t, s, "two")
	one.create("x")
	in := one.pauseAt("process h1 of x")
	first := one.hook("stop", "x", "h1")
	in.wait()
	for _, st := range []*stage{one, two} {
		got, err := ask(http.MethodGet, st.url+"/hook/status?agent=x", nil)
		if err != nil || got.status != http.StatusOK || got.agent.ID != "x" || got.agent.Events != 0 {
			t.Errorf("answer is %+v (%v)", got, err)
		}
	}
	that(t, two.locked == 0 && len(two.waits) == 0, "it took a lock")
	close(in.resume)
	ok(t, first)
	if got, err := ask(http.MethodGet, one.url+"/hook/status?agent=nobody", nil); err != nil || got.status != http.StatusNotFound {
		t.Errorf("of an agent there is not: %+v (%v)", got, err)
	}
}

// free reports whether nobody has the agent's lock.
func (st *stage) free(agent string) bool {
	st.t.Helper()
	held, err := st.Locks.TryAcquire(st.ctx(), agentLock(agent))
	if err != nil {
		mustBeLocked(st.t, err)
		return false
	}
	noErr(st.t, held.Release())
	return true
}
