package lock_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// TestLadder has a row for each rung, and for each guard of a rung: the same
// facts but one, and what is concluded then.
func TestLadder(t *testing.T) {
	const hour = time.Hour

	// A claim of ours, made under its own kernel lock, which is free now.
	own := lock.Facts{
		Kernel: lock.KernelFree, Trusted: true, Content: lock.ContentClaim, Marked: true, Origin: lock.HereOrigin,
		Process: platform.Uncertain, UnderLock: true, SameKind: true, Age: hour, StaleAfter: 2 * hour,
	}
	// One that proves nothing but what the row adds.
	bare := own
	bare.Marked, bare.UnderLock, bare.SameKind = false, false, false
	// What is no claim.
	none := lock.Facts{Kernel: lock.KernelFree, Trusted: true, Content: lock.ContentNone, Age: hour, StaleAfter: 2 * hour}

	type change = func(*lock.Facts)
	for _, test := range []struct {
		name     string
		facts    lock.Facts
		change   change
		state    lock.State
		evidence lock.Evidence
	}{
		// The kernel lock is held.
		{"held", own, func(f *lock.Facts) { f.Kernel = lock.KernelHeld }, lock.StateHeld, lock.EvidenceKernelLockHeld},
		{"held over age", bare, func(f *lock.Facts) { f.Kernel, f.Age = lock.KernelHeld, 1000*hour }, lock.StateHeld, lock.EvidenceKernelLockHeld},
		{"held over a process that is gone", own, func(f *lock.Facts) { f.Kernel, f.Process = lock.KernelHeld, platform.Gone }, lock.StateHeld, lock.EvidenceKernelLockHeld},
		{"held over a release", own, func(f *lock.Facts) { f.Kernel, f.Released = lock.KernelHeld, true }, lock.StateHeld, lock.EvidenceKernelLockHeld},
		{"held over what is no claim yet", none, func(f *lock.Facts) { f.Kernel, f.Marked = lock.KernelHeld, true }, lock.StateHeld, lock.EvidenceKernelLockHeld},
		{"held over what is no lock file", none, func(f *lock.Facts) { f.Kernel, f.Content = lock.KernelHeld, lock.ContentAlien }, lock.StateHeld, lock.EvidenceKernelLockHeld},
		{"held on a filesystem that is not trusted", own, func(f *lock.Facts) { f.Kernel, f.Trusted = lock.KernelHeld, false }, lock.StateHeld, lock.EvidenceKernelLockHeld},

		// What is nobody's to remove.
		{"alien", none, func(f *lock.Facts) { f.Content = lock.ContentAlien }, lock.StateUnknown, lock.EvidenceNotALockFile},
		{"alien, aged", none, func(f *lock.Facts) { f.Content, f.Age = lock.ContentAlien, 1000*hour }, lock.StateUnknown, lock.EvidenceNotALockFile},
		{"alien, NULs, marked", none, func(f *lock.Facts) { f.Content, f.NULs, f.Marked = lock.ContentAlien, true, true }, lock.StateUnknown, lock.EvidenceNotALockFile},
		{"forbidden, aged", none, func(f *lock.Facts) { f.Content, f.Age = lock.ContentForbidden, 1000*hour }, lock.StateUnknown, lock.EvidenceNotPermitted},
		{"leased, aged", none, func(f *lock.Facts) { f.Content, f.Age = lock.ContentLeased, 1000*hour }, lock.StateUnknown, lock.EvidenceLeased},

		// 0. Released.
		{"0 released", own, func(f *lock.Facts) { f.Released = true }, lock.StateDead, lock.EvidenceSaysReleased},
		{"0 over a living process", own, func(f *lock.Facts) { f.Released, f.Process = true, platform.Alive }, lock.StateDead, lock.EvidenceSaysReleased},
		{"0 in fallback", bare, func(f *lock.Facts) { f.Released, f.Kernel = true, lock.KernelUnknown }, lock.StateDead, lock.EvidenceSaysReleased},

		// 1. The same process.
		{"1 same process", bare, func(f *lock.Facts) { f.Process = platform.Alive }, lock.StateHeld, lock.EvidenceSameProcess},
		{"1 over a free kernel lock", own, func(f *lock.Facts) { f.Process = platform.Alive }, lock.StateHeld, lock.EvidenceSameProcess},
		{"1 over age", bare, func(f *lock.Facts) { f.Process, f.Age = platform.Alive, 1000*hour }, lock.StateHeld, lock.EvidenceSameProcess},
		{"1 in fallback", bare, func(f *lock.Facts) { f.Process, f.Kernel = platform.Alive, lock.KernelUnknown }, lock.StateHeld, lock.EvidenceSameProcess},
		{"1 not trusted", bare, func(f *lock.Facts) { f.Process, f.Trusted = platform.Alive, false }, lock.StateHeld, lock.EvidenceSameProcess},
		{"1 not for a copy", own, func(f *lock.Facts) { f.Process, f.Copied = platform.Alive, true }, lock.StateDead, lock.EvidenceKernelLockFree},
		{"1 not for a copy from another filesystem", own, func(f *lock.Facts) {
			f.Process, f.Copied, f.SameKind = platform.Alive, true, false
		}, lock.StateUnknown, lock.EvidenceUnproven},
		{"1 not for a foreign namespace", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Alive, lock.ForeignNamespaceOrigin
		}, lock.StateUnknown, lock.EvidenceForeignNamespace},
		{"1 not for a foreign host", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Alive, lock.ForeignHostOrigin
		}, lock.StateUnknown, lock.EvidenceForeignHost},
		{"1 not for an earlier boot", own, func(f *lock.Facts) {
			f.Process, f.Origin, f.SameKind = platform.Alive, lock.EarlierBootOrigin, false
		}, lock.StateDead, lock.EvidenceMachineRestarted},
		{"1 not when only the pid exists", bare, func(f *lock.Facts) { f.Process = platform.Exists }, lock.StateUnknown, lock.EvidencePIDExists},
		{"1 not for readers whose first one lives on", own, func(f *lock.Facts) {
			f.Process, f.Shared = platform.Alive, true
		}, lock.StateDead, lock.EvidenceKernelLockFree},
		{"1 for readers seen through another filesystem", own, func(f *lock.Facts) {
			f.Process, f.Shared, f.SameKind = platform.Alive, true, false
		}, lock.StateHeld, lock.EvidenceSameProcess},
		{"1 for readers where not trusted", own, func(f *lock.Facts) {
			f.Process, f.Shared, f.Trusted = platform.Alive, true, false
		}, lock.StateHeld, lock.EvidenceSameProcess},
		{"1 for readers in fallback", own, func(f *lock.Facts) {
			f.Process, f.Shared, f.Kernel = platform.Alive, true, lock.KernelUnknown
		}, lock.StateHeld, lock.EvidenceSameProcess},

		// 1, of a bare pid: by when its process began.
		{"1 began before the claim", bare, func(f *lock.Facts) { f.Process, f.Began = platform.Exists, true }, lock.StateHeld, lock.EvidenceBeganBefore},
		{"1 began before, over age", bare, func(f *lock.Facts) {
			f.Process, f.Began, f.Age = platform.Exists, true, 1000*hour
		}, lock.StateHeld, lock.EvidenceBeganBefore},
		{"1 began before, in fallback", bare, func(f *lock.Facts) {
			f.Process, f.Began, f.Kernel = platform.Exists, true, lock.KernelUnknown
		}, lock.StateHeld, lock.EvidenceBeganBefore},
		{"1 began before, not for a foreign host", bare, func(f *lock.Facts) {
			f.Process, f.Began, f.Origin = platform.Exists, true, lock.ForeignHostOrigin
		}, lock.StateUnknown, lock.EvidenceForeignHost},
		{"1 began before, not over the kernel's own word", own, func(f *lock.Facts) {
			f.Process, f.Began = platform.Exists, true
		}, lock.StateDead, lock.EvidenceKernelLockFree},

		// 2. Its kernel lock is free.
		{"2 kernel lock free", own, nil, lock.StateDead, lock.EvidenceKernelLockFree},
		{"2 though the pid exists", own, func(f *lock.Facts) { f.Process = platform.Exists }, lock.StateDead, lock.EvidenceKernelLockFree},
		{"2 though age never counts", own, func(f *lock.Facts) { f.StaleAfter = -1 }, lock.StateDead, lock.EvidenceKernelLockFree},
		{"2 from a foreign host", own, func(f *lock.Facts) { f.Origin = lock.ForeignHostOrigin }, lock.StateDead, lock.EvidenceKernelLockFree},
		{"2 from a foreign namespace", own, func(f *lock.Facts) { f.Origin = lock.ForeignNamespaceOrigin }, lock.StateDead, lock.EvidenceKernelLockFree},
		{"2 a copy", own, func(f *lock.Facts) { f.Copied = true }, lock.StateDead, lock.EvidenceKernelLockFree},
		{"2 not on another filesystem", own, func(f *lock.Facts) { f.SameKind = false }, lock.StateUnknown, lock.EvidenceUnproven},
		{"2 not what its maker did not trust", own, func(f *lock.Facts) { f.UnderLock = false }, lock.StateUnknown, lock.EvidenceUnproven},
		{"2 not where not trusted", own, func(f *lock.Facts) { f.Trusted = false }, lock.StateUnknown, lock.EvidenceUnproven},
		{"2 where not trusted takes 4", own, func(f *lock.Facts) { f.Trusted, f.Process = false, platform.Gone }, lock.StateDead, lock.EvidenceProcessGone},
		{"2 not in fallback", own, func(f *lock.Facts) { f.Kernel = lock.KernelUnknown }, lock.StateUnknown, lock.EvidenceUnproven},

		// 3. Died while claiming.
		{"3 incomplete", none, func(f *lock.Facts) { f.Marked = true }, lock.StateDead, lock.EvidenceIncomplete},
		{"3 though age never counts", none, func(f *lock.Facts) { f.Marked, f.StaleAfter = true, -1 }, lock.StateDead, lock.EvidenceIncomplete},
		{"3 not without the mark", none, nil, lock.StateUnknown, lock.EvidenceUnreadable},
		{"3 not where not trusted", none, func(f *lock.Facts) { f.Marked, f.Trusted = true, false }, lock.StateUnknown, lock.EvidenceUnreadable},
		{"3 not in fallback", none, func(f *lock.Facts) { f.Marked, f.Kernel = true, lock.KernelUnknown }, lock.StateUnknown, lock.EvidenceUnreadable},
		{"3 not for a claim, marked or not", bare, func(f *lock.Facts) { f.Marked = true }, lock.StateUnknown, lock.EvidenceUnproven},

		// 4. The pid's own evidence.
		{"4 process gone", bare, func(f *lock.Facts) { f.Process = platform.Gone }, lock.StateDead, lock.EvidenceProcessGone},
		{"4 pid reused", bare, func(f *lock.Facts) { f.Process = platform.Replaced }, lock.StateDead, lock.EvidencePIDReused},
		{"4 in fallback", bare, func(f *lock.Facts) { f.Process, f.Kernel = platform.Gone, lock.KernelUnknown }, lock.StateDead, lock.EvidenceProcessGone},
		{"4 in fallback, reused", bare, func(f *lock.Facts) { f.Process, f.Kernel = platform.Replaced, lock.KernelUnknown }, lock.StateDead, lock.EvidencePIDReused},
		{"4 where not trusted", bare, func(f *lock.Facts) { f.Process, f.Trusted = platform.Gone, false }, lock.StateDead, lock.EvidenceProcessGone},
		{"4 though age never counts", bare, func(f *lock.Facts) { f.Process, f.StaleAfter = platform.Gone, -1 }, lock.StateDead, lock.EvidenceProcessGone},
		{"4 not for a foreign namespace", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Gone, lock.ForeignNamespaceOrigin
		}, lock.StateUnknown, lock.EvidenceForeignNamespace},
		{"4 not for a foreign host", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Gone, lock.ForeignHostOrigin
		}, lock.StateUnknown, lock.EvidenceForeignHost},
		{"4 not for a foreign host, reused", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Replaced, lock.ForeignHostOrigin
		}, lock.StateUnknown, lock.EvidenceForeignHost},
		{"4 not when it can't be told", bare, func(f *lock.Facts) { f.Process = platform.Uncertain }, lock.StateUnknown, lock.EvidenceUnproven},
		{"4 not for readers, where not trusted", own, func(f *lock.Facts) {
			f.Process, f.Shared, f.Trusted = platform.Gone, true, false
		}, lock.StateUnknown, lock.EvidenceUnproven},
		{"4 not for readers, in fallback", own, func(f *lock.Facts) {
			f.Process, f.Shared, f.Kernel = platform.Replaced, true, lock.KernelUnknown
		}, lock.StateUnknown, lock.EvidenceUnproven},
		{"4 for readers whose file nobody has locked", own, func(f *lock.Facts) {
			f.Process, f.Shared, f.SameKind = platform.Gone, true, false
		}, lock.StateDead, lock.EvidenceProcessGone},

		// 5. The machine restarted, or lost its power.
		{"5 earlier boot", own, func(f *lock.Facts) { f.Origin, f.SameKind = lock.EarlierBootOrigin, false }, lock.StateDead, lock.EvidenceMachineRestarted},
		{"5 though age never counts", own, func(f *lock.Facts) {
			f.Origin, f.SameKind, f.StaleAfter = lock.EarlierBootOrigin, false, -1
		}, lock.StateDead, lock.EvidenceMachineRestarted},
		{"5 not where not trusted", own, func(f *lock.Facts) { f.Origin, f.Trusted = lock.EarlierBootOrigin, false }, lock.StateUnknown, lock.EvidenceForeignHost},
		{"5 not what its maker did not trust", bare, func(f *lock.Facts) { f.Origin = lock.EarlierBootOrigin }, lock.StateUnknown, lock.EvidenceForeignHost},
		{"5 not in fallback", own, func(f *lock.Facts) { f.Origin, f.Kernel = lock.EarlierBootOrigin, lock.KernelUnknown }, lock.StateUnknown, lock.EvidenceForeignHost},
		{"5 NULs", none, func(f *lock.Facts) { f.NULs = true }, lock.StateDead, lock.EvidencePowerLost},
		{"5 not NULs where not trusted", none, func(f *lock.Facts) { f.NULs, f.Trusted = true, false }, lock.StateUnknown, lock.EvidenceUnreadable},
		{"5 not NULs in fallback", none, func(f *lock.Facts) { f.NULs, f.Kernel = true, lock.KernelUnknown }, lock.StateUnknown, lock.EvidenceUnreadable},

		// 6. Age.
		{"6 pid exists, aged", bare, func(f *lock.Facts) { f.Process, f.Age = platform.Exists, 3*hour }, lock.StateDead, lock.EvidenceAged},
		{"6 uncertain, aged", bare, func(f *lock.Facts) { f.Age = 3 * hour }, lock.StateDead, lock.EvidenceAged},
		{"6 foreign host, aged", bare, func(f *lock.Facts) { f.Origin, f.Age = lock.ForeignHostOrigin, 3*hour }, lock.StateDead, lock.EvidenceAged},
		{"6 foreign namespace, aged", bare, func(f *lock.Facts) { f.Origin, f.Age = lock.ForeignNamespaceOrigin, 3*hour }, lock.StateDead, lock.EvidenceAged},
		{"6 no claim, aged", none, func(f *lock.Facts) { f.Age = 3 * hour }, lock.StateDead, lock.EvidenceAged},
		{"6 no claim, marked, in fallback, aged", none, func(f *lock.Facts) {
			f.Marked, f.Age, f.Kernel = true, 3*hour, lock.KernelUnknown
		}, lock.StateDead, lock.EvidenceAged},
		{"6 in fallback", bare, func(f *lock.Facts) { f.Age, f.Kernel = 3*hour, lock.KernelUnknown }, lock.StateDead, lock.EvidenceAged},
		{"6 where not trusted", bare, func(f *lock.Facts) { f.Age, f.Trusted = 3*hour, false }, lock.StateDead, lock.EvidenceAged},
		{"6 by a nanosecond", bare, func(f *lock.Facts) { f.Age = 2*hour + 1 }, lock.StateDead, lock.EvidenceAged},
		{"6 not at exactly that age", bare, func(f *lock.Facts) { f.Age = 2 * hour }, lock.StateUnknown, lock.EvidenceUnproven},
		{"6 not below it", bare, func(f *lock.Facts) { f.Age = 2*hour - 1 }, lock.StateUnknown, lock.EvidenceUnproven},
		{"6 not from the future", bare, func(f *lock.Facts) { f.Age = -1000 * hour }, lock.StateUnknown, lock.EvidenceUnproven},
		{"6 never where age does not count", bare, func(f *lock.Facts) { f.Age, f.StaleAfter = 1000*hour, -1 }, lock.StateUnknown, lock.EvidenceUnproven},
		{"6 never, pid exists", bare, func(f *lock.Facts) {
			f.Process, f.Age, f.StaleAfter = platform.Exists, 1000*hour, -1
		}, lock.StateUnknown, lock.EvidencePIDExists},
		{"6 never, foreign host", bare, func(f *lock.Facts) {
			f.Origin, f.Age, f.StaleAfter = lock.ForeignHostOrigin, 1000*hour, -hour
		}, lock.StateUnknown, lock.EvidenceForeignHost},
		{"6 never, no claim", none, func(f *lock.Facts) { f.Age, f.StaleAfter = 1000*hour, -1 }, lock.StateUnknown, lock.EvidenceUnreadable},
		{"6 never who does not renew: on another filesystem", own, func(f *lock.Facts) {
			f.Age, f.SameKind = 1000*hour, false
		}, lock.StateUnknown, lock.EvidenceUnproven},
		{"6 never who does not renew: where we don't trust", own, func(f *lock.Facts) {
			f.Age, f.Trusted, f.Origin = 1000*hour, false, lock.ForeignHostOrigin
		}, lock.StateUnknown, lock.EvidenceForeignHost},
		{"6 never who does not renew: in fallback", own, func(f *lock.Facts) {
			f.Age, f.Kernel, f.Origin = 1000*hour, lock.KernelUnknown, lock.ForeignNamespaceOrigin
		}, lock.StateUnknown, lock.EvidenceForeignNamespace},

		// Evidence is reported by what is strongest, whatever the age.
		{"2 before 4", own, func(f *lock.Facts) { f.Process = platform.Gone }, lock.StateDead, lock.EvidenceKernelLockFree},
		{"2 before 6", own, func(f *lock.Facts) { f.Age = 1000 * hour }, lock.StateDead, lock.EvidenceKernelLockFree},
		{"3 before 5", none, func(f *lock.Facts) { f.Marked, f.NULs = true, true }, lock.StateDead, lock.EvidenceIncomplete},
		{"4 before 6", bare, func(f *lock.Facts) { f.Process, f.Age = platform.Gone, 1000*hour }, lock.StateDead, lock.EvidenceProcessGone},
	} {
		facts := test.facts
		if test.change != nil {
			test.change(&facts)
		}
		if v, e := lock.Judge(facts); v != test.state || e != test.evidence {
			t.Errorf("%s: %s, %q; want %s, %q", test.name, v, e, test.state, test.evidence)
		}
	}
}

// stateOf is the one state that each evidence stands for.
var stateOf = map[lock.Evidence]lock.State{
	lock.EvidenceKernelLockHeld: lock.StateHeld, lock.EvidenceSameProcess: lock.StateHeld, lock.EvidenceBeganBefore: lock.StateHeld,
	lock.EvidenceSaysReleased: lock.StateDead, lock.EvidenceKernelLockFree: lock.StateDead, lock.EvidenceIncomplete: lock.StateDead, lock.EvidenceProcessGone: lock.StateDead,
	lock.EvidencePIDReused: lock.StateDead, lock.EvidenceMachineRestarted: lock.StateDead, lock.EvidencePowerLost: lock.StateDead, lock.EvidenceAged: lock.StateDead,
	lock.EvidenceNotALockFile: lock.StateUnknown, lock.EvidenceNotPermitted: lock.StateUnknown, lock.EvidenceLeased: lock.StateUnknown,
	lock.EvidenceUnreadable: lock.StateUnknown, lock.EvidenceForeignHost: lock.StateUnknown,
	lock.EvidenceForeignNamespace: lock.StateUnknown, lock.EvidencePIDExists: lock.StateUnknown, lock.EvidenceUnproven: lock.StateUnknown,
}

const stale = 2 * time.Hour

// factValues are those that each fact is tried with; the two that are times, between whose
// values nothing can change, have them by name.
var factValues = map[string][]any{
	"Kernel":     {lock.KernelUnknown, lock.KernelFree, lock.KernelHeld},
	"Content":    {lock.ContentClaim, lock.ContentNone, lock.ContentAlien, lock.ContentForbidden, lock.ContentLeased},
	"Origin":     {lock.ForeignHostOrigin, lock.ForeignNamespaceOrigin, lock.EarlierBootOrigin, lock.HereOrigin},
	"Process":    {platform.Uncertain, platform.Exists, platform.Alive, platform.Gone, platform.Replaced},
	"StaleAfter": {time.Duration(-1), time.Duration(0), stale},
	"Age":        {-stale, time.Duration(0), stale, stale + 1},
}

// allFacts calls f with every combination of facts, those included that can't come
// about. A fact that it has no values for fails the test.
func allFacts(t *testing.T, f func(lock.Facts)) {
	t.Helper()
	facts := reflect.TypeFor[lock.Facts]()
	for _, name := range lock.FactNames() {
		if _, ok := facts.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) }); !ok {
			t.Fatalf("fact %q is not tried", name)
		}
	}
	var x lock.Facts
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
	seen := map[lock.Evidence]int{}
	allFacts(t, func(f lock.Facts) {
		if t.Failed() {
			return
		}
		v, e := lock.Judge(f)
		seen[e]++
		broken := func(what string) { t.Errorf("%s: %+v gives %s, %q", what, f, v, e) }

		whole := f.Content == lock.ContentClaim
		here := whole && f.Origin == lock.HereOrigin
		proof := f.Kernel == lock.KernelFree && f.Trusted
		own := proof && whole && f.UnderLock && f.SameKind
		dead := v == lock.StateDead
		if stateOf[e] != v {
			broken("evidence does not belong to its state")
		}
		if f.Kernel == lock.KernelHeld && (v != lock.StateHeld || e != lock.EvidenceKernelLockHeld) {
			broken("whoever holds the kernel lock lives")
		}
		if !whole && f.Content != lock.ContentNone && dead {
			broken("what can't be read, or is no lock file, is nobody's to remove")
		}
		if here && f.Process == platform.Alive && v != lock.StateHeld && !f.Released && !f.Copied && !(own && f.Shared) {
			broken("a process proven alive is alive")
		}
		if e == lock.EvidenceAged && (f.StaleAfter < 0 || f.Age <= f.StaleAfter) {
			broken("age does not allow it")
		}
		if e == lock.EvidenceAged && whole && f.UnderLock {
			broken("who has a kernel lock does not renew")
		}
		if dead && f.Shared && whole && !proof && !f.Released && e != lock.EvidenceAged {
			broken("readers judged by the first of them")
		}
		there := true
		switch e {
		case lock.EvidenceKernelLockHeld:
			there = f.Kernel == lock.KernelHeld
		case lock.EvidenceSameProcess:
			there = here && f.Process == platform.Alive
		case lock.EvidenceBeganBefore:
			there = here && f.Process == platform.Exists && f.Began
		case lock.EvidenceSaysReleased:
			there = whole && f.Released
		case lock.EvidenceKernelLockFree:
			there = own
		case lock.EvidenceIncomplete:
			there = proof && f.Content == lock.ContentNone && f.Marked
		case lock.EvidenceProcessGone:
			there = here && f.Process == platform.Gone
		case lock.EvidencePIDReused:
			there = here && f.Process == platform.Replaced
		case lock.EvidenceMachineRestarted:
			there = proof && whole && f.UnderLock && f.Origin == lock.EarlierBootOrigin
		case lock.EvidencePowerLost:
			there = proof && f.Content == lock.ContentNone && f.NULs
		}
		if !there {
			broken("the evidence is not there")
		}
		// Age, where it counts, settles all that is not settled otherwise.
		if v == lock.StateUnknown && f.StaleAfter >= 0 && f.Age > f.StaleAfter && (f.Content == lock.ContentNone || whole && !f.UnderLock) {
			broken("stays locked for ever")
		}
		// Where the kernel can be trusted, a dead holder of ours never needs age.
		if own && !(here && f.Process == platform.Alive) && !dead {
			broken("a crash needs a hand")
		}
		// More age never brings a holder back to life, and less never kills.
		if f.Age > 0 {
			younger := f
			younger.Age = 0
			if w, _ := lock.Judge(younger); w == lock.StateDead && !dead || w == lock.StateHeld && v != lock.StateHeld {
				broken("age works backwards")
			}
		}
		// What a file does not say can't matter.
		if !whole {
			silent := f
			silent.Origin, silent.Process, silent.UnderLock, silent.SameKind = lock.HereOrigin, platform.Alive, true, true
			silent.Shared, silent.Released, silent.Began, silent.Copied = false, true, true, false
			if w, _ := lock.Judge(silent); w != v {
				broken("judged by what a file without a claim says")
			}
		} else if f.Origin != lock.HereOrigin {
			other := f
			other.Process, other.Began = platform.Gone, true
			if w, _ := lock.Judge(other); w != v {
				broken("judged by a pid of somewhere else")
			}
		} else {
			other := f
			other.Marked, other.NULs = !f.Marked, !f.NULs
			if w, _ := lock.Judge(other); w != v {
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
