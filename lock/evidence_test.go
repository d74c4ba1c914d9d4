package lock_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// TestLadder has a row for each rung, and for each guard of a rung: the same
// facts but one, and what is concluded then.
func TestLadder(t *testing.T) {
	const hour = time.Hour

	// A claim of ours, made under the kernel lock that is free now.
	own := lock.Facts{
		Kernel: lock.KernelFree, Trusted: true, Claim: lock.ClaimReadable, Origin: lock.HereOrigin,
		Process: platform.Uncertain, SameSibling: true, Age: hour, StaleAfter: 2 * hour,
	}
	// One that proves nothing but what the row adds.
	bare := own
	bare.SameSibling = false

	for _, test := range []struct {
		name     string
		facts    lock.Facts
		change   func(*lock.Facts)
		verdict  lock.Verdict
		evidence lock.Evidence
	}{
		// 0. The kernel lock is held.
		{"0 kernel lock held", own, func(f *lock.Facts) { f.Kernel = lock.KernelHeld }, lock.Alive, lock.KernelLockHeld},
		{"0 over age", bare, func(f *lock.Facts) { f.Kernel, f.Age = lock.KernelHeld, 1000*hour }, lock.Alive, lock.KernelLockHeld},
		{"0 over a process that is gone", own, func(f *lock.Facts) { f.Kernel, f.Process = lock.KernelHeld, platform.Gone }, lock.Alive, lock.KernelLockHeld},
		{"0 over an incomplete claim", bare, func(f *lock.Facts) { f.Kernel, f.Claim = lock.KernelHeld, lock.ClaimIncomplete }, lock.Alive, lock.KernelLockHeld},
		{"0 over what is no lock file", bare, func(f *lock.Facts) { f.Kernel, f.Claim = lock.KernelHeld, lock.ClaimAlien }, lock.Alive, lock.KernelLockHeld},
		{"0 on a filesystem that is not trusted", own, func(f *lock.Facts) { f.Kernel, f.Trusted = lock.KernelHeld, false }, lock.Alive, lock.KernelLockHeld},

		// What is no lock file is nobody's to remove.
		{"alien", bare, func(f *lock.Facts) { f.Claim = lock.ClaimAlien }, lock.Unknown, lock.NotALockFile},
		{"alien, aged", bare, func(f *lock.Facts) { f.Claim, f.Age = lock.ClaimAlien, 1000*hour }, lock.Unknown, lock.NotALockFile},
		{"alien, NULs", bare, func(f *lock.Facts) { f.Claim, f.NULs = lock.ClaimAlien, true }, lock.Unknown, lock.NotALockFile},

		// 1. The same process.
		{"1 same process", bare, func(f *lock.Facts) { f.Process = platform.Alive }, lock.Alive, lock.SameProcess},
		{"1 over a free kernel lock", own, func(f *lock.Facts) { f.Process = platform.Alive }, lock.Alive, lock.SameProcess},
		{"1 over age", bare, func(f *lock.Facts) { f.Process, f.Age = platform.Alive, 1000*hour }, lock.Alive, lock.SameProcess},
		{"1 in fallback", bare, func(f *lock.Facts) { f.Process, f.Kernel = platform.Alive, lock.KernelUnknown }, lock.Alive, lock.SameProcess},
		{"1 not trusted", bare, func(f *lock.Facts) { f.Process, f.Trusted = platform.Alive, false }, lock.Alive, lock.SameProcess},
		{"1 not for a foreign namespace", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Alive, lock.ForeignNamespaceOrigin
		}, lock.Unknown, lock.ForeignNamespace},
		{"1 not for a foreign host", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Alive, lock.ForeignHostOrigin
		}, lock.Unknown, lock.ForeignHost},
		{"1 not for an earlier boot", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Alive, lock.EarlierBootOrigin
		}, lock.Dead, lock.MachineRestarted},
		{"1 not when only the pid exists", bare, func(f *lock.Facts) { f.Process = platform.Exists }, lock.Unknown, lock.PIDExists},
		{"1 not for readers whose first one lives on", own, func(f *lock.Facts) {
			f.Process, f.Shared = platform.Alive, true
		}, lock.Dead, lock.KernelLockFree},
		{"1 for readers under another sibling", bare, func(f *lock.Facts) {
			f.Process, f.Shared = platform.Alive, true
		}, lock.Alive, lock.SameProcess},
		{"1 for readers where not trusted", own, func(f *lock.Facts) {
			f.Process, f.Shared, f.Trusted = platform.Alive, true, false
		}, lock.Alive, lock.SameProcess},
		{"1 for readers in fallback", own, func(f *lock.Facts) {
			f.Process, f.Shared, f.Kernel = platform.Alive, true, lock.KernelUnknown
		}, lock.Alive, lock.SameProcess},

		// 2. Its kernel lock is free.
		{"2 kernel lock free", own, nil, lock.Dead, lock.KernelLockFree},
		{"2 though the pid exists", own, func(f *lock.Facts) { f.Process = platform.Exists }, lock.Dead, lock.KernelLockFree},
		{"2 though age never counts", own, func(f *lock.Facts) { f.StaleAfter = -1 }, lock.Dead, lock.KernelLockFree},
		{"2 from a foreign host", own, func(f *lock.Facts) { f.Origin = lock.ForeignHostOrigin }, lock.Dead, lock.KernelLockFree},
		{"2 from a foreign namespace", own, func(f *lock.Facts) { f.Origin = lock.ForeignNamespaceOrigin }, lock.Dead, lock.KernelLockFree},
		{"2 not under another sibling", own, func(f *lock.Facts) { f.SameSibling = false }, lock.Unknown, lock.Unproven},
		{"2 not where not trusted", own, func(f *lock.Facts) { f.Trusted = false }, lock.Unknown, lock.Unproven},
		{"2 where not trusted takes 4", own, func(f *lock.Facts) { f.Trusted, f.Process = false, platform.Gone }, lock.Dead, lock.ProcessGone},
		{"2 not in fallback", own, func(f *lock.Facts) { f.Kernel = lock.KernelUnknown }, lock.Unknown, lock.Unproven},
		{"2 not unless readable", own, func(f *lock.Facts) { f.Claim = lock.ClaimUnreadable }, lock.Unknown, lock.Unreadable},

		// 3. Died while claiming.
		{"3 incomplete", bare, func(f *lock.Facts) { f.Claim = lock.ClaimIncomplete }, lock.Dead, lock.Incomplete},
		{"3 though age never counts", bare, func(f *lock.Facts) { f.Claim, f.StaleAfter = lock.ClaimIncomplete, -1 }, lock.Dead, lock.Incomplete},
		{"3 not where not trusted", bare, func(f *lock.Facts) { f.Claim, f.Trusted = lock.ClaimIncomplete, false }, lock.Unknown, lock.Unreadable},
		{"3 not in fallback", bare, func(f *lock.Facts) { f.Claim, f.Kernel = lock.ClaimIncomplete, lock.KernelUnknown }, lock.Unknown, lock.Unreadable},
		{"3 not in fallback, NULs", bare, func(f *lock.Facts) {
			f.Claim, f.Kernel, f.NULs = lock.ClaimIncomplete, lock.KernelUnknown, true
		}, lock.Unknown, lock.Unreadable},

		// 4. The pid's own evidence.
		{"4 process gone", bare, func(f *lock.Facts) { f.Process = platform.Gone }, lock.Dead, lock.ProcessGone},
		{"4 pid reused", bare, func(f *lock.Facts) { f.Process = platform.Replaced }, lock.Dead, lock.PIDReused},
		{"4 in fallback", bare, func(f *lock.Facts) { f.Process, f.Kernel = platform.Gone, lock.KernelUnknown }, lock.Dead, lock.ProcessGone},
		{"4 in fallback, reused", bare, func(f *lock.Facts) { f.Process, f.Kernel = platform.Replaced, lock.KernelUnknown }, lock.Dead, lock.PIDReused},
		{"4 where not trusted", bare, func(f *lock.Facts) { f.Process, f.Trusted = platform.Gone, false }, lock.Dead, lock.ProcessGone},
		{"4 though age never counts", bare, func(f *lock.Facts) { f.Process, f.StaleAfter = platform.Gone, -1 }, lock.Dead, lock.ProcessGone},
		{"4 not for a foreign namespace", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Gone, lock.ForeignNamespaceOrigin
		}, lock.Unknown, lock.ForeignNamespace},
		{"4 not for a foreign host", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Gone, lock.ForeignHostOrigin
		}, lock.Unknown, lock.ForeignHost},
		{"4 not for a foreign host, reused", bare, func(f *lock.Facts) {
			f.Process, f.Origin = platform.Replaced, lock.ForeignHostOrigin
		}, lock.Unknown, lock.ForeignHost},
		{"4 not when it can't be told", bare, func(f *lock.Facts) { f.Process = platform.Uncertain }, lock.Unknown, lock.Unproven},

		// 5. The machine restarted.
		{"5 earlier boot", bare, func(f *lock.Facts) { f.Origin = lock.EarlierBootOrigin }, lock.Dead, lock.MachineRestarted},
		{"5 though age never counts", bare, func(f *lock.Facts) { f.Origin, f.StaleAfter = lock.EarlierBootOrigin, -1 }, lock.Dead, lock.MachineRestarted},
		{"5 NULs", bare, func(f *lock.Facts) { f.Claim, f.NULs = lock.ClaimUnreadable, true }, lock.Dead, lock.PowerLost},
		{"5 not where not trusted", bare, func(f *lock.Facts) { f.Origin, f.Trusted = lock.EarlierBootOrigin, false }, lock.Unknown, lock.ForeignHost},
		{"5 not in fallback", bare, func(f *lock.Facts) { f.Origin, f.Kernel = lock.EarlierBootOrigin, lock.KernelUnknown }, lock.Unknown, lock.ForeignHost},
		{"5 not NULs where not trusted", bare, func(f *lock.Facts) {
			f.Claim, f.NULs, f.Trusted = lock.ClaimUnreadable, true, false
		}, lock.Unknown, lock.Unreadable},
		{"5 not NULs in fallback", bare, func(f *lock.Facts) {
			f.Claim, f.NULs, f.Kernel = lock.ClaimUnreadable, true, lock.KernelUnknown
		}, lock.Unknown, lock.Unreadable},
		{"5 not what else is unreadable", bare, func(f *lock.Facts) { f.Claim = lock.ClaimUnreadable }, lock.Unknown, lock.Unreadable},
		{"5 not readable", bare, func(f *lock.Facts) { f.NULs = true }, lock.Unknown, lock.Unproven},
		{"5 not for a foreign host", bare, func(f *lock.Facts) {
			f.Origin, f.NULs = lock.ForeignHostOrigin, true
		}, lock.Unknown, lock.ForeignHost},

		// 6. Age.
		{"6 pid exists, aged", bare, func(f *lock.Facts) { f.Process, f.Age = platform.Exists, 3*hour }, lock.Dead, lock.Aged},
		{"6 uncertain, aged", bare, func(f *lock.Facts) { f.Age = 3 * hour }, lock.Dead, lock.Aged},
		{"6 foreign host, aged", bare, func(f *lock.Facts) { f.Origin, f.Age = lock.ForeignHostOrigin, 3*hour }, lock.Dead, lock.Aged},
		{"6 foreign namespace, aged", bare, func(f *lock.Facts) { f.Origin, f.Age = lock.ForeignNamespaceOrigin, 3*hour }, lock.Dead, lock.Aged},
		{"6 unreadable, aged", bare, func(f *lock.Facts) { f.Claim, f.Age = lock.ClaimUnreadable, 3*hour }, lock.Dead, lock.Aged},
		{"6 incomplete in fallback, aged", bare, func(f *lock.Facts) {
			f.Claim, f.Age, f.Kernel = lock.ClaimIncomplete, 3*hour, lock.KernelUnknown
		}, lock.Dead, lock.Aged},
		{"6 in fallback", bare, func(f *lock.Facts) { f.Age, f.Kernel = 3*hour, lock.KernelUnknown }, lock.Dead, lock.Aged},
		{"6 where not trusted", own, func(f *lock.Facts) { f.Age, f.Trusted = 3*hour, false }, lock.Dead, lock.Aged},
		{"6 by a nanosecond", bare, func(f *lock.Facts) { f.Age = 2*hour + 1 }, lock.Dead, lock.Aged},
		{"6 not at exactly that age", bare, func(f *lock.Facts) { f.Age = 2 * hour }, lock.Unknown, lock.Unproven},
		{"6 not below it", bare, func(f *lock.Facts) { f.Age = 2*hour - 1 }, lock.Unknown, lock.Unproven},
		{"6 not from the future", bare, func(f *lock.Facts) { f.Age = -1000 * hour }, lock.Unknown, lock.Unproven},
		{"6 never where age does not count", bare, func(f *lock.Facts) { f.Age, f.StaleAfter = 1000*hour, -1 }, lock.Unknown, lock.Unproven},
		{"6 never, pid exists", bare, func(f *lock.Facts) {
			f.Process, f.Age, f.StaleAfter = platform.Exists, 1000*hour, -1
		}, lock.Unknown, lock.PIDExists},
		{"6 never, foreign host", bare, func(f *lock.Facts) {
			f.Origin, f.Age, f.StaleAfter = lock.ForeignHostOrigin, 1000*hour, -hour
		}, lock.Unknown, lock.ForeignHost},
		{"6 never, unreadable", bare, func(f *lock.Facts) {
			f.Claim, f.Age, f.StaleAfter = lock.ClaimUnreadable, 1000*hour, -1
		}, lock.Unknown, lock.Unreadable},

		// Evidence is reported by what is strongest, whatever the age.
		{"2 before 4", own, func(f *lock.Facts) { f.Process = platform.Gone }, lock.Dead, lock.KernelLockFree},
		{"2 before 6", own, func(f *lock.Facts) { f.Age = 1000 * hour }, lock.Dead, lock.KernelLockFree},
		{"4 before 6", bare, func(f *lock.Facts) { f.Process, f.Age = platform.Gone, 1000*hour }, lock.Dead, lock.ProcessGone},
		{"5 before 6", bare, func(f *lock.Facts) { f.Origin, f.Age = lock.EarlierBootOrigin, 1000*hour }, lock.Dead, lock.MachineRestarted},
	} {
		facts := test.facts
		if test.change != nil {
			test.change(&facts)
		}
		if v, e := lock.Judge(facts); v != test.verdict || e != test.evidence {
			t.Errorf("%s: %s, %q; want %s, %q", test.name, v, e, test.verdict, test.evidence)
		}
	}
}

// verdictOf is the one verdict that each evidence stands for.
var verdictOf = map[lock.Evidence]lock.Verdict{
	lock.KernelLockHeld: lock.Alive, lock.SameProcess: lock.Alive,
	lock.KernelLockFree: lock.Dead, lock.Incomplete: lock.Dead, lock.ProcessGone: lock.Dead,
	lock.PIDReused: lock.Dead, lock.MachineRestarted: lock.Dead, lock.PowerLost: lock.Dead, lock.Aged: lock.Dead,
	lock.NotALockFile: lock.Unknown, lock.Unreadable: lock.Unknown, lock.ForeignHost: lock.Unknown,
	lock.ForeignNamespace: lock.Unknown, lock.PIDExists: lock.Unknown, lock.Unproven: lock.Unknown,
}

// allFacts calls f with every combination of facts, those included that can't
// come about.
func allFacts(f func(lock.Facts)) {
	const stale = 2 * time.Hour
	no := []bool{false, true}
	var x lock.Facts
	for x.Kernel = lock.KernelUnknown; x.Kernel <= lock.KernelHeld; x.Kernel++ {
		for x.Claim = lock.ClaimReadable; x.Claim <= lock.ClaimAlien; x.Claim++ {
			for x.Origin = lock.ForeignHostOrigin; x.Origin <= lock.HereOrigin; x.Origin++ {
				for x.Process = platform.Uncertain; x.Process <= platform.Replaced; x.Process++ {
					for _, x.StaleAfter = range []time.Duration{-1, 0, stale} {
						for _, x.Age = range []time.Duration{-stale, 0, 1, stale, stale + 1, 1000 * stale} {
							for _, x.Trusted = range no {
								for _, x.SameSibling = range no {
									for _, x.Shared = range no {
										for _, x.NULs = range no {
											f(x)
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// TestLadder_Invariants checks what must hold for all facts, in words that don't
// follow the order of the rungs.
func TestLadder_Invariants(t *testing.T) {
	seen := map[lock.Evidence]int{}
	total := 0
	allFacts(func(f lock.Facts) {
		if t.Failed() {
			return
		}
		v, e := lock.Judge(f)
		seen[e]++
		total++
		broken := func(what string) { t.Errorf("%s: %+v gives %s, %q", what, f, v, e) }

		readable := f.Claim == lock.ClaimReadable
		here := readable && f.Origin == lock.HereOrigin
		proof := f.Kernel == lock.KernelFree && f.Trusted
		dead := v == lock.Dead
		if verdictOf[e] != v {
			broken("evidence does not belong to its verdict")
		}
		if f.Kernel == lock.KernelHeld && (v != lock.Alive || e != lock.KernelLockHeld) {
			broken("whoever holds the kernel lock lives")
		}
		if f.Claim == lock.ClaimAlien && dead {
			broken("what is no lock file is nobody's to remove")
		}
		if here && f.Process == platform.Alive && v != lock.Alive && !(proof && f.SameSibling && f.Shared) {
			broken("a process proven alive is alive")
		}
		if e == lock.Aged && (f.StaleAfter < 0 || f.Age <= f.StaleAfter) {
			broken("age does not allow it")
		}
		switch e {
		case lock.KernelLockFree, lock.Incomplete, lock.MachineRestarted, lock.PowerLost:
			if !proof {
				broken("needs a trustworthy kernel lock")
			}
		}
		switch e {
		case lock.KernelLockHeld:
			if f.Kernel != lock.KernelHeld {
				broken("nobody holds it")
			}
		case lock.SameProcess:
			if !here || f.Process != platform.Alive {
				broken("no proof of that")
			}
		case lock.KernelLockFree:
			if !readable || !f.SameSibling {
				broken("not made under this kernel lock")
			}
		case lock.Incomplete:
			if f.Claim != lock.ClaimIncomplete {
				broken("not incomplete")
			}
		case lock.ProcessGone:
			if !here || f.Process != platform.Gone {
				broken("not known to be gone")
			}
		case lock.PIDReused:
			if !here || f.Process != platform.Replaced {
				broken("not known to be reused")
			}
		case lock.MachineRestarted:
			if !readable || f.Origin != lock.EarlierBootOrigin {
				broken("not from before the boot")
			}
		case lock.PowerLost:
			if f.Claim != lock.ClaimUnreadable || !f.NULs {
				broken("not NULs")
			}
		}
		// Age, where it counts, settles all that is not settled otherwise.
		if v == lock.Unknown && f.StaleAfter >= 0 && f.Age > f.StaleAfter && f.Claim != lock.ClaimAlien {
			broken("stays locked for ever")
		}
		// Where the kernel can be trusted, a dead holder of ours never needs age.
		if proof && readable && f.SameSibling && !(here && f.Process == platform.Alive) && !dead {
			broken("a crash needs a hand")
		}
		// More age never brings a holder back to life, and less never kills.
		if f.Age > 0 {
			younger := f
			younger.Age = 0
			if w, _ := lock.Judge(younger); w == lock.Dead && !dead || w == lock.Alive && v != lock.Alive {
				broken("age works backwards")
			}
		}
		// What a file does not say can't matter.
		if !readable {
			silent := f
			silent.Origin, silent.Process, silent.SameSibling, silent.Shared = lock.HereOrigin, platform.Alive, true, false
			if w, _ := lock.Judge(silent); w != v {
				broken("judged by what an unreadable claim says")
			}
		} else if f.Origin != lock.HereOrigin {
			other := f
			other.Process = platform.Gone
			if w, _ := lock.Judge(other); w != v {
				broken("judged by a pid of somewhere else")
			}
		}
	})
	if want := 3 * 4 * 4 * 5 * 3 * 6 * 2 * 2 * 2 * 2; total != want {
		t.Errorf("judged %d combinations, want %d", total, want)
	}
	for e := range verdictOf {
		if seen[e] == 0 {
			t.Errorf("%q never comes up", e)
		}
	}
}
