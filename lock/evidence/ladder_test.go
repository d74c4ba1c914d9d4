package evidence_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestLadder has a row for each rung, and for each guard of a rung: the same
// facts but one, and what is concluded then.
func TestLadder(t *testing.T) {
	const hour = time.Hour

	// A claim of ours, made under its own kernel lock, which is free now.
	own := evidence.Facts{
		Kernel: evidence.KernelFree, Trusted: true, Content: evidence.ContentClaim, Marked: true, Origin: evidence.OriginHere,
		Process: evidence.Uncertain, UnderLock: true, SameKind: true, Age: hour, StaleAfter: 2 * hour,
	}
	// One that proves nothing but what the row adds.
	bare := own
	bare.Marked, bare.UnderLock, bare.SameKind = false, false, false
	// What is no claim.
	none := evidence.Facts{Kernel: evidence.KernelFree, Trusted: true, Content: evidence.ContentNone, Age: hour, StaleAfter: 2 * hour}

	type change = func(*evidence.Facts)
	for _, test := range []struct {
		name     string
		facts    evidence.Facts
		change   change
		state    evidence.State
		evidence evidence.Evidence
	}{
		// The kernel lock is held.
		{"held", own, func(f *evidence.Facts) { f.Kernel = evidence.KernelHeld }, evidence.Held, evidence.KernelLockHeld},
		{"held over age", bare, func(f *evidence.Facts) { f.Kernel, f.Age = evidence.KernelHeld, 1000*hour }, evidence.Held, evidence.KernelLockHeld},
		{"held over a process that is gone", own, func(f *evidence.Facts) { f.Kernel, f.Process = evidence.KernelHeld, evidence.Gone }, evidence.Held, evidence.KernelLockHeld},
		{"held over a release", own, func(f *evidence.Facts) { f.Kernel, f.Released = evidence.KernelHeld, true }, evidence.Held, evidence.KernelLockHeld},
		{"held over what is no claim yet", none, func(f *evidence.Facts) { f.Kernel, f.Marked = evidence.KernelHeld, true }, evidence.Held, evidence.KernelLockHeld},
		{"held over what is no lock file", none, func(f *evidence.Facts) { f.Kernel, f.Content = evidence.KernelHeld, evidence.ContentAlien }, evidence.Held, evidence.KernelLockHeld},
		{"held on a filesystem that is not trusted", own, func(f *evidence.Facts) { f.Kernel, f.Trusted = evidence.KernelHeld, false }, evidence.Held, evidence.KernelLockHeld},

		// What is nobody's to remove.
		{"alien", none, func(f *evidence.Facts) { f.Content = evidence.ContentAlien }, evidence.Unknown, evidence.NotALockFile},
		{"alien, aged", none, func(f *evidence.Facts) { f.Content, f.Age = evidence.ContentAlien, 1000*hour }, evidence.Unknown, evidence.NotALockFile},
		{"alien, NULs, marked", none, func(f *evidence.Facts) { f.Content, f.NULs, f.Marked = evidence.ContentAlien, true, true }, evidence.Unknown, evidence.NotALockFile},
		{"forbidden, aged", none, func(f *evidence.Facts) { f.Content, f.Age = evidence.ContentForbidden, 1000*hour }, evidence.Unknown, evidence.NotPermitted},
		{"leased, aged", none, func(f *evidence.Facts) { f.Content, f.Age = evidence.ContentLeased, 1000*hour }, evidence.Unknown, evidence.Leased},

		// 0. Released.
		{"0 released", own, func(f *evidence.Facts) { f.Released = true }, evidence.Dead, evidence.SaysReleased},
		{"0 over a living process", own, func(f *evidence.Facts) { f.Released, f.Process = true, evidence.Alive }, evidence.Dead, evidence.SaysReleased},
		{"0 in fallback", bare, func(f *evidence.Facts) { f.Released, f.Kernel = true, evidence.KernelUnknown }, evidence.Dead, evidence.SaysReleased},

		// 1. The same process.
		{"1 same process", bare, func(f *evidence.Facts) { f.Process = evidence.Alive }, evidence.Held, evidence.SameProcess},
		{"1 over a free kernel lock", own, func(f *evidence.Facts) { f.Process = evidence.Alive }, evidence.Held, evidence.SameProcess},
		{"1 over age", bare, func(f *evidence.Facts) { f.Process, f.Age = evidence.Alive, 1000*hour }, evidence.Held, evidence.SameProcess},
		{"1 in fallback", bare, func(f *evidence.Facts) { f.Process, f.Kernel = evidence.Alive, evidence.KernelUnknown }, evidence.Held, evidence.SameProcess},
		{"1 not trusted", bare, func(f *evidence.Facts) { f.Process, f.Trusted = evidence.Alive, false }, evidence.Held, evidence.SameProcess},
		{"1 not for a copy", own, func(f *evidence.Facts) { f.Process, f.Copied = evidence.Alive, true }, evidence.Dead, evidence.KernelLockFree},
		{"1 not for a copy from another filesystem", own, func(f *evidence.Facts) {
			f.Process, f.Copied, f.SameKind = evidence.Alive, true, false
		}, evidence.Unknown, evidence.Unproven},
		{"1 not for a foreign namespace", bare, func(f *evidence.Facts) {
			f.Process, f.Origin = evidence.Alive, evidence.OriginForeignNamespace
		}, evidence.Unknown, evidence.ForeignNamespace},
		{"1 not for a foreign host", bare, func(f *evidence.Facts) {
			f.Process, f.Origin = evidence.Alive, evidence.OriginForeignHost
		}, evidence.Unknown, evidence.ForeignHost},
		{"1 not for an earlier boot", own, func(f *evidence.Facts) {
			f.Process, f.Origin, f.SameKind = evidence.Alive, evidence.OriginEarlierBoot, false
		}, evidence.Dead, evidence.MachineRestarted},
		{"1 not when only the pid exists", bare, func(f *evidence.Facts) { f.Process = evidence.Exists }, evidence.Unknown, evidence.PIDExists},
		{"1 not for readers whose first one lives on", own, func(f *evidence.Facts) {
			f.Process, f.Shared = evidence.Alive, true
		}, evidence.Dead, evidence.KernelLockFree},
		{"1 for readers seen through another filesystem", own, func(f *evidence.Facts) {
			f.Process, f.Shared, f.SameKind = evidence.Alive, true, false
		}, evidence.Held, evidence.SameProcess},
		{"1 for readers where not trusted", own, func(f *evidence.Facts) {
			f.Process, f.Shared, f.Trusted = evidence.Alive, true, false
		}, evidence.Held, evidence.SameProcess},
		{"1 for readers in fallback", own, func(f *evidence.Facts) {
			f.Process, f.Shared, f.Kernel = evidence.Alive, true, evidence.KernelUnknown
		}, evidence.Held, evidence.SameProcess},

		// 1, of a bare pid: by when its process began.
		{"1 began before the claim", bare, func(f *evidence.Facts) { f.Process, f.Began = evidence.Exists, true }, evidence.Held, evidence.BeganBefore},
		{"1 began before, over age", bare, func(f *evidence.Facts) {
			f.Process, f.Began, f.Age = evidence.Exists, true, 1000*hour
		}, evidence.Held, evidence.BeganBefore},
		{"1 began before, in fallback", bare, func(f *evidence.Facts) {
			f.Process, f.Began, f.Kernel = evidence.Exists, true, evidence.KernelUnknown
		}, evidence.Held, evidence.BeganBefore},
		{"1 began before, not for a foreign host", bare, func(f *evidence.Facts) {
			f.Process, f.Began, f.Origin = evidence.Exists, true, evidence.OriginForeignHost
		}, evidence.Unknown, evidence.ForeignHost},
		{"1 began before, not over the kernel's own word", own, func(f *evidence.Facts) {
			f.Process, f.Began = evidence.Exists, true
		}, evidence.Dead, evidence.KernelLockFree},

		// 2. Its kernel lock is free.
		{"2 kernel lock free", own, nil, evidence.Dead, evidence.KernelLockFree},
		{"2 though the pid exists", own, func(f *evidence.Facts) { f.Process = evidence.Exists }, evidence.Dead, evidence.KernelLockFree},
		{"2 though age never counts", own, func(f *evidence.Facts) { f.StaleAfter = -1 }, evidence.Dead, evidence.KernelLockFree},
		{"2 from a foreign host", own, func(f *evidence.Facts) { f.Origin = evidence.OriginForeignHost }, evidence.Dead, evidence.KernelLockFree},
		{"2 from a foreign namespace", own, func(f *evidence.Facts) { f.Origin = evidence.OriginForeignNamespace }, evidence.Dead, evidence.KernelLockFree},
		{"2 a copy", own, func(f *evidence.Facts) { f.Copied = true }, evidence.Dead, evidence.KernelLockFree},
		{"2 not on another filesystem", own, func(f *evidence.Facts) { f.SameKind = false }, evidence.Unknown, evidence.Unproven},
		{"2 not what its maker did not trust", own, func(f *evidence.Facts) { f.UnderLock = false }, evidence.Unknown, evidence.Unproven},
		{"2 not where not trusted", own, func(f *evidence.Facts) { f.Trusted = false }, evidence.Unknown, evidence.Unproven},
		{"2 where not trusted takes 4", own, func(f *evidence.Facts) { f.Trusted, f.Process = false, evidence.Gone }, evidence.Dead, evidence.ProcessGone},
		{"2 not in fallback", own, func(f *evidence.Facts) { f.Kernel = evidence.KernelUnknown }, evidence.Unknown, evidence.Unproven},

		// 3. Died while claiming.
		{"3 incomplete", none, func(f *evidence.Facts) { f.Marked = true }, evidence.Dead, evidence.Incomplete},
		{"3 though age never counts", none, func(f *evidence.Facts) { f.Marked, f.StaleAfter = true, -1 }, evidence.Dead, evidence.Incomplete},
		{"3 not without the mark", none, nil, evidence.Unknown, evidence.Unreadable},
		{"3 not where not trusted", none, func(f *evidence.Facts) { f.Marked, f.Trusted = true, false }, evidence.Unknown, evidence.Unreadable},
		{"3 not in fallback", none, func(f *evidence.Facts) { f.Marked, f.Kernel = true, evidence.KernelUnknown }, evidence.Unknown, evidence.Unreadable},
		{"3 not for a claim, marked or not", bare, func(f *evidence.Facts) { f.Marked = true }, evidence.Unknown, evidence.Unproven},

		// 4. The pid's own evidence.
		{"4 process gone", bare, func(f *evidence.Facts) { f.Process = evidence.Gone }, evidence.Dead, evidence.ProcessGone},
		{"4 pid reused", bare, func(f *evidence.Facts) { f.Process = evidence.Replaced }, evidence.Dead, evidence.PIDReused},
		{"4 in fallback", bare, func(f *evidence.Facts) { f.Process, f.Kernel = evidence.Gone, evidence.KernelUnknown }, evidence.Dead, evidence.ProcessGone},
		{"4 in fallback, reused", bare, func(f *evidence.Facts) { f.Process, f.Kernel = evidence.Replaced, evidence.KernelUnknown }, evidence.Dead, evidence.PIDReused},
		{"4 where not trusted", bare, func(f *evidence.Facts) { f.Process, f.Trusted = evidence.Gone, false }, evidence.Dead, evidence.ProcessGone},
		{"4 though age never counts", bare, func(f *evidence.Facts) { f.Process, f.StaleAfter = evidence.Gone, -1 }, evidence.Dead, evidence.ProcessGone},
		{"4 not for a foreign namespace", bare, func(f *evidence.Facts) {
			f.Process, f.Origin = evidence.Gone, evidence.OriginForeignNamespace
		}, evidence.Unknown, evidence.ForeignNamespace},
		{"4 not for a foreign host", bare, func(f *evidence.Facts) {
			f.Process, f.Origin = evidence.Gone, evidence.OriginForeignHost
		}, evidence.Unknown, evidence.ForeignHost},
		{"4 not for a foreign host, reused", bare, func(f *evidence.Facts) {
			f.Process, f.Origin = evidence.Replaced, evidence.OriginForeignHost
		}, evidence.Unknown, evidence.ForeignHost},
		{"4 not when it can't be told", bare, func(f *evidence.Facts) { f.Process = evidence.Uncertain }, evidence.Unknown, evidence.Unproven},
		{"4 not for readers, where not trusted", own, func(f *evidence.Facts) {
			f.Process, f.Shared, f.Trusted = evidence.Gone, true, false
		}, evidence.Unknown, evidence.Unproven},
		{"4 not for readers, in fallback", own, func(f *evidence.Facts) {
			f.Process, f.Shared, f.Kernel = evidence.Replaced, true, evidence.KernelUnknown
		}, evidence.Unknown, evidence.Unproven},
		{"4 for readers whose file nobody has locked", own, func(f *evidence.Facts) {
			f.Process, f.Shared, f.SameKind = evidence.Gone, true, false
		}, evidence.Dead, evidence.ProcessGone},

		// 5. The machine restarted, or lost its power.
		{"5 earlier boot", own, func(f *evidence.Facts) { f.Origin, f.SameKind = evidence.OriginEarlierBoot, false }, evidence.Dead, evidence.MachineRestarted},
		{"5 though age never counts", own, func(f *evidence.Facts) {
			f.Origin, f.SameKind, f.StaleAfter = evidence.OriginEarlierBoot, false, -1
		}, evidence.Dead, evidence.MachineRestarted},
		{"5 not where not trusted", own, func(f *evidence.Facts) { f.Origin, f.Trusted = evidence.OriginEarlierBoot, false }, evidence.Unknown, evidence.ForeignHost},
		{"5 not what its maker did not trust", bare, func(f *evidence.Facts) { f.Origin = evidence.OriginEarlierBoot }, evidence.Unknown, evidence.ForeignHost},
		{"5 not in fallback", own, func(f *evidence.Facts) { f.Origin, f.Kernel = evidence.OriginEarlierBoot, evidence.KernelUnknown }, evidence.Unknown, evidence.ForeignHost},
		{"5 NULs", none, func(f *evidence.Facts) { f.NULs = true }, evidence.Dead, evidence.PowerLost},
		{"5 not NULs where not trusted", none, func(f *evidence.Facts) { f.NULs, f.Trusted = true, false }, evidence.Unknown, evidence.Unreadable},
		{"5 not NULs in fallback", none, func(f *evidence.Facts) { f.NULs, f.Kernel = true, evidence.KernelUnknown }, evidence.Unknown, evidence.Unreadable},

		// 6. Age.
		{"6 pid exists, aged", bare, func(f *evidence.Facts) { f.Process, f.Age = evidence.Exists, 3*hour }, evidence.Dead, evidence.Aged},
		{"6 uncertain, aged", bare, func(f *evidence.Facts) { f.Age = 3 * hour }, evidence.Dead, evidence.Aged},
		{"6 foreign host, aged", bare, func(f *evidence.Facts) { f.Origin, f.Age = evidence.OriginForeignHost, 3*hour }, evidence.Dead, evidence.Aged},
		{"6 foreign namespace, aged", bare, func(f *evidence.Facts) { f.Origin, f.Age = evidence.OriginForeignNamespace, 3*hour }, evidence.Dead, evidence.Aged},
		{"6 no claim, aged", none, func(f *evidence.Facts) { f.Age = 3 * hour }, evidence.Dead, evidence.Aged},
		{"6 no claim, marked, in fallback, aged", none, func(f *evidence.Facts) {
			f.Marked, f.Age, f.Kernel = true, 3*hour, evidence.KernelUnknown
		}, evidence.Dead, evidence.Aged},
		{"6 in fallback", bare, func(f *evidence.Facts) { f.Age, f.Kernel = 3*hour, evidence.KernelUnknown }, evidence.Dead, evidence.Aged},
		{"6 where not trusted", bare, func(f *evidence.Facts) { f.Age, f.Trusted = 3*hour, false }, evidence.Dead, evidence.Aged},
		{"6 by a nanosecond", bare, func(f *evidence.Facts) { f.Age = 2*hour + 1 }, evidence.Dead, evidence.Aged},
		{"6 not at exactly that age", bare, func(f *evidence.Facts) { f.Age = 2 * hour }, evidence.Unknown, evidence.Unproven},
		{"6 not below it", bare, func(f *evidence.Facts) { f.Age = 2*hour - 1 }, evidence.Unknown, evidence.Unproven},
		{"6 not from the future", bare, func(f *evidence.Facts) { f.Age = -1000 * hour }, evidence.Unknown, evidence.Unproven},
		{"6 never where age does not count", bare, func(f *evidence.Facts) { f.Age, f.StaleAfter = 1000*hour, -1 }, evidence.Unknown, evidence.Unproven},
		{"6 never, pid exists", bare, func(f *evidence.Facts) {
			f.Process, f.Age, f.StaleAfter = evidence.Exists, 1000*hour, -1
		}, evidence.Unknown, evidence.PIDExists},
		{"6 never, foreign host", bare, func(f *evidence.Facts) {
			f.Origin, f.Age, f.StaleAfter = evidence.OriginForeignHost, 1000*hour, -hour
		}, evidence.Unknown, evidence.ForeignHost},
		{"6 never, no claim", none, func(f *evidence.Facts) { f.Age, f.StaleAfter = 1000*hour, -1 }, evidence.Unknown, evidence.Unreadable},
		{"6 never who does not renew: on another filesystem", own, func(f *evidence.Facts) {
			f.Age, f.SameKind = 1000*hour, false
		}, evidence.Unknown, evidence.Unproven},
		{"6 never who does not renew: where we don't trust", own, func(f *evidence.Facts) {
			f.Age, f.Trusted, f.Origin = 1000*hour, false, evidence.OriginForeignHost
		}, evidence.Unknown, evidence.ForeignHost},
		{"6 never who does not renew: in fallback", own, func(f *evidence.Facts) {
			f.Age, f.Kernel, f.Origin = 1000*hour, evidence.KernelUnknown, evidence.OriginForeignNamespace
		}, evidence.Unknown, evidence.ForeignNamespace},

		// Evidence is reported by what is strongest, whatever the age.
		{"2 before 4", own, func(f *evidence.Facts) { f.Process = evidence.Gone }, evidence.Dead, evidence.KernelLockFree},
		{"2 before 6", own, func(f *evidence.Facts) { f.Age = 1000 * hour }, evidence.Dead, evidence.KernelLockFree},
		{"3 before 5", none, func(f *evidence.Facts) { f.Marked, f.NULs = true, true }, evidence.Dead, evidence.Incomplete},
		{"4 before 6", bare, func(f *evidence.Facts) { f.Process, f.Age = evidence.Gone, 1000*hour }, evidence.Dead, evidence.ProcessGone},
	} {
		facts := test.facts
		if test.change != nil {
			test.change(&facts)
		}
		if v, e := evidence.Judge(facts); v != test.state || e != test.evidence {
			t.Errorf("%s: %s, %q; want %s, %q", test.name, v, e, test.state, test.evidence)
		}
	}
}

// stateOf is the one state that each evidence stands for.
var stateOf = map[evidence.Evidence]evidence.State{
	evidence.KernelLockHeld: evidence.Held, evidence.SameProcess: evidence.Held, evidence.BeganBefore: evidence.Held,
	evidence.SaysReleased: evidence.Dead, evidence.KernelLockFree: evidence.Dead, evidence.Incomplete: evidence.Dead, evidence.ProcessGone: evidence.Dead,
	evidence.PIDReused: evidence.Dead, evidence.MachineRestarted: evidence.Dead, evidence.PowerLost: evidence.Dead, evidence.Aged: evidence.Dead,
	evidence.NotALockFile: evidence.Unknown, evidence.NotPermitted: evidence.Unknown, evidence.Leased: evidence.Unknown,
	evidence.Unreadable: evidence.Unknown, evidence.ForeignHost: evidence.Unknown,
	evidence.ForeignNamespace: evidence.Unknown, evidence.PIDExists: evidence.Unknown, evidence.Unproven: evidence.Unknown,
}

const stale = 2 * time.Hour

// factValues are those that each fact is tried with; the two that are times, between whose
// values nothing can change, have them by name.
var factValues = map[string][]any{
	"Kernel":     {evidence.KernelUnknown, evidence.KernelFree, evidence.KernelHeld},
	"Content":    {evidence.ContentClaim, evidence.ContentNone, evidence.ContentAlien, evidence.ContentForbidden, evidence.ContentLeased},
	"Origin":     {evidence.OriginForeignHost, evidence.OriginForeignNamespace, evidence.OriginEarlierBoot, evidence.OriginHere},
	"Process":    {evidence.Uncertain, evidence.Exists, evidence.Alive, evidence.Gone, evidence.Replaced},
	"StaleAfter": {time.Duration(-1), time.Duration(0), stale},
	"Age":        {-stale, time.Duration(0), stale, stale + 1},
}

// allFacts calls f with every combination of facts, those included that can't come
// about. A fact that it has no values for fails the test.
func allFacts(t *testing.T, f func(evidence.Facts)) {
	t.Helper()
	facts := reflect.TypeFor[evidence.Facts]()
	for _, name := range factNames() {
		if _, ok := facts.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) }); !ok {
			t.Fatalf("fact %q is not tried", name)
		}
	}
	var x evidence.Facts
	value := reflect.ValueOf(&x).Elem()
	var set func(field int)
	set = func(field int) {
		if field == facts.NumField() {
			f(x)
			return
		}
		values := factValues[facts.Field(field).Name]
		if facts.Field(field).Type.Kind() == reflect.Bool {
			values = []any{false, true}
		}
		if len(values) == 0 {
			t.Fatalf("no values to try for %s", facts.Field(field).Name)
		}
		for _, v := range values {
			value.Field(field).Set(reflect.ValueOf(v))
			set(field + 1)
		}
	}
	set(0)
}

// TestLadder_Invariants checks what must hold for all facts, in words that don't
// follow the order of the rungs.
func TestLadder_Invariants(t *testing.T) {
	seen := map[evidence.Evidence]int{}
	allFacts(t, func(f evidence.Facts) {
		if t.Failed() {
			return
		}
		v, e := evidence.Judge(f)
		seen[e]++
		broken := func(what string) { t.Errorf("%s: %+v gives %s, %q", what, f, v, e) }

		whole := f.Content == evidence.ContentClaim
		here := whole && f.Origin == evidence.OriginHere
		proof := f.Kernel == evidence.KernelFree && f.Trusted
		own := proof && whole && f.UnderLock && f.SameKind
		dead := v == evidence.Dead
		if stateOf[e] != v {
			broken("evidence does not belong to its state")
		}
		if f.Kernel == evidence.KernelHeld && (v != evidence.Held || e != evidence.KernelLockHeld) {
			broken("whoever holds the kernel lock lives")
		}
		if !whole && f.Content != evidence.ContentNone && dead {
			broken("what can't be read, or is no lock file, is nobody's to remove")
		}
		if here && f.Process == evidence.Alive && v != evidence.Held && !f.Released && !f.Copied && !(own && f.Shared) {
			broken("a process proven alive is alive")
		}
		if e == evidence.Aged && (f.StaleAfter < 0 || f.Age <= f.StaleAfter) {
			broken("age does not allow it")
		}
		if e == evidence.Aged && whole && f.UnderLock {
			broken("who has a kernel lock does not renew")
		}
		if dead && f.Shared && whole && !proof && !f.Released && e != evidence.Aged {
			broken("readers judged by the first of them")
		}
		there := true
		switch e {
		case evidence.KernelLockHeld:
			there = f.Kernel == evidence.KernelHeld
		case evidence.SameProcess:
			there = here && f.Process == evidence.Alive
		case evidence.BeganBefore:
			there = here && f.Process == evidence.Exists && f.Began
		case evidence.SaysReleased:
			there = whole && f.Released
		case evidence.KernelLockFree:
			there = own
		case evidence.Incomplete:
			there = proof && f.Content == evidence.ContentNone && f.Marked
		case evidence.ProcessGone:
			there = here && f.Process == evidence.Gone
		case evidence.PIDReused:
			there = here && f.Process == evidence.Replaced
		case evidence.MachineRestarted:
			there = proof && whole && f.UnderLock && f.Origin == evidence.OriginEarlierBoot
		case evidence.PowerLost:
			there = proof && f.Content == evidence.ContentNone && f.NULs
		}
		if !there {
			broken("the evidence is not there")
		}
		// Age, where it counts, settles all that is not settled otherwise.
		if v == evidence.Unknown && f.StaleAfter >= 0 && f.Age > f.StaleAfter && (f.Content == evidence.ContentNone || whole && !f.UnderLock) {
			broken("stays locked for ever")
		}
		// Where the kernel can be trusted, a dead holder of ours never needs age.
		if own && !(here && f.Process == evidence.Alive) && !dead {
			broken("a crash needs a hand")
		}
		// More age never brings a holder back to life, and less never kills.
		if f.Age > 0 {
			younger := f
			younger.Age = 0
			if w, _ := evidence.Judge(younger); w == evidence.Dead && !dead || w == evidence.Held && v != evidence.Held {
				broken("age works backwards")
			}
		}
		// What a file does not say can't matter.
		if !whole {
			silent := f
			silent.Origin, silent.Process, silent.UnderLock, silent.SameKind = evidence.OriginHere, evidence.Alive, true, true
			silent.Shared, silent.Released, silent.Began, silent.Copied = false, true, true, false
			if w, _ := evidence.Judge(silent); w != v {
				broken("judged by what a file without a claim says")
			}
		} else if f.Origin != evidence.OriginHere {
			other := f
			other.Process, other.Began = evidence.Gone, true
			if w, _ := evidence.Judge(other); w != v {
				broken("judged by a pid of somewhere else")
			}
		} else {
			other := f
			other.Marked, other.NULs = !f.Marked, !f.NULs
			if w, _ := evidence.Judge(other); w != v {
				broken("a whole claim judged by its file")
			}
		}
	})
	for e := range stateOf {
		if seen[e] == 0 {
			t.Errorf("%q never comes up", e)
		}
	}
}

// factNames are those of all facts that the ladder looks at.
func factNames() (names []string) {
	facts := reflect.TypeFor[evidence.Facts]()
	for i := range facts.NumField() {
		names = append(names, facts.Field(i).Name)
	}
	return names
}
