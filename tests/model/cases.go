package model

// A Case is a machine with all its guards, in which nothing may go wrong.
type Case struct {
	Machine
	Long bool // only -complete runs it
}

// Cases are those that are explored.
func Cases() (all []Case) {
	add := func(name string, long bool, m Machine, roles ...string) {
		for _, r := range roles {
			m.Name, m.Roles = name, []Role(r)
			all = append(all, Case{m, long})
		}
	}
	const short, long = false, true

	// Writers and readers who wait.
	three := []string{"www", "wwr", "wrr", "rrr"}
	two := []string{"ww", "wr", "rr"}
	add("crash", short, Machine{Budget: may(crash, 1)}, three...)
	add("crashes, sibling removed and replaced", short, Machine{Budget: may(crash, 2, rmS, 1, mvS, 1)}, two...)
	add("lock file removed", short, Machine{Budget: may(crash, 1, rmP, 1)}, "www", "wwr", "wrr")
	add("lock file replaced", short, Machine{Budget: may(mvP, 1)}, "www", "wwr", "wrr")
	add("crash, sibling removed", short, Machine{Budget: may(crash, 1, rmS, 1)}, "www", "wwr")
	add("sibling replaced", short, Machine{Budget: may(mvS, 1)}, "wwr")
	add("crash, sibling removed", long, Machine{Budget: may(crash, 1, rmS, 1)}, "wrr", "rrr")
	add("sibling replaced", long, Machine{Budget: may(mvS, 1)}, "wrr", "rrr")
	add("crashes, sibling removed", long, Machine{Budget: may(crash, 2, rmS, 1)}, three...)
	add("crash, sibling removed and replaced", long, Machine{Budget: may(crash, 1, rmS, 1, mvS, 1)}, "www", "wwr")
	add("crash, lock file removed", long, Machine{Budget: may(crash, 2, rmP, 1)}, three...)
	add("come again", short, Machine{Budget: may(crash, 1, rmS, 1, again, 2)}, "ww", "wr")
	add("come again", long, Machine{Budget: may(crash, 1, again, 1)}, three...)

	// A dead holder's lock file, and a dead reclaimer's marker, are there.
	debris := Machine{Budget: may(crash, 2, rmS, 1), DeadFile: true, DeadMarker: true}
	add("debris, crashes, sibling removed", short, debris, two...)
	add("debris, marker and sibling removed", short, Machine{Budget: may(crash, 1, rmM, 1, rmS, 1), DeadFile: true}, "ww", "wr")
	add("debris, crash", long, Machine{Budget: may(crash, 1, rmS, 1), DeadFile: true, DeadMarker: true}, "www", "wwr")

	// Tries, and who only looks.
	add("tries", short, Machine{Budget: may(crash, 1, rmS, 1)}, "tt", "tu", "uu", "tw", "ti", "ui", "tr")
	add("tries and looks", short, Machine{Budget: may(crash, 1)}, "tti", "twi", "wwi", "wri")
	add("tries and looks", long, Machine{Budget: may(crash, 1, rmS, 1)}, "tti", "tui", "wri", "rri", "wwi")

	// Waits that are cancelled.
	add("cancelled", short, Machine{Budget: may(cancel, 1, crash, 1)}, "ww", "wr", "rr", "www", "wwr")
	add("cancelled, sibling removed", short, Machine{Budget: may(cancel, 2, rmS, 1)}, two...)
	add("cancelled, sibling removed", long, Machine{Budget: may(cancel, 1, rmS, 1)}, three...)

	// A release that fails; a holder that becomes another program; children of the dead.
	add("unlink fails", short, Machine{Budget: may(noUnl, 1, crash, 1, rmS, 1)}, "ww", "wr")
	add("unlink fails", long, Machine{Budget: may(noUnl, 2, crash, 1, rmS, 1)}, "www", "wwr")
	add("exec", short, Machine{Budget: may(execd, 1, rmS, 1)}, "ww", "wr", "www")
	add("children", short, Machine{Budget: may(child, 1, rmS, 1)}, "ww", "wr", "rr", "www")
	add("children", long, Machine{Budget: may(child, 2, rmS, 1)}, "www", "wwr", "wrr")

	// A process is stopped. All others wait for it if it has the sibling's lock.
	add("stopped", short, Machine{Budget: may(stop, 1, rmS, 1)}, "ww", "wr", "rr", "www")
	add("stopped", long, Machine{Budget: may(stop, 1, crash, 1)}, three...)

	// The turnstile. The cases above and below are without it, as that gives more orders.
	inOrder := Machine{Budget: may(again, 1), Turnstile: true, Order: true}
	add("turnstile, in order", short, inOrder, "ww", "wr", "rr", "www", "wwr", "wwt", "wwu")
	add("turnstile, in order", long, inOrder, "wrr", "rrr", "wru", "wwww", "wwwr")
	add("turnstile, come again", long, Machine{Budget: may(again, 3), Turnstile: true, Order: true}, three...)
	add("turnstile, stopped", short, Machine{Budget: may(stop, 1), Turnstile: true}, "ww", "wr", "rr", "www", "wwr", "wwu")
	add("turnstile, stopped", long, Machine{Budget: may(stop, 2, again, 1), Turnstile: true}, three...)
	add("turnstile, stopped", long, Machine{Budget: may(stop, 1), Turnstile: true}, "wwww")
	add("turnstile, stopped, crash", long, Machine{Budget: may(stop, 1, crash, 1), Turnstile: true}, three...)
	add("turnstile, slow", short, Machine{Budget: may(crash, 1, again, 1), Turnstile: true, Slow: true}, "ww", "wr", "rr")
	add("turnstile, slow", long, Machine{Budget: may(crash, 1), Turnstile: true, Slow: true}, three...)
	add("turnstile, slow, lock file removed", short, Machine{Budget: may(rmP, 1), Turnstile: true, Slow: true}, "ww", "wr")
	add("turnstile, crash", short, Machine{Budget: may(crash, 1), Turnstile: true}, "www", "wwr")
	add("turnstile, sibling removed", short, Machine{Budget: may(rmS, 1), Turnstile: true}, "ww", "wr", "www")
	add("turnstile, sibling removed", long, Machine{Budget: may(crash, 1, rmS, 1), Turnstile: true}, three...)
	add("turnstile, sibling replaced", short, Machine{Budget: may(mvS, 1, stop, 1), Turnstile: true}, "ww", "wr")
	add("turnstile, cancelled", short, Machine{Budget: may(cancel, 2), Turnstile: true}, "ww", "wr", "www")
	add("turnstile, cancelled, stopped", long, Machine{Budget: may(cancel, 1, stop, 1), Turnstile: true}, three...)
	add("turnstile, tidy", short, Machine{Budget: may(again, 1), Turnstile: true, Tidy: true}, "ww", "wr", "www")
	add("turnstile, tidy", long, Machine{Budget: may(stop, 1, again, 1), Turnstile: true, Tidy: true}, three...)

	// The sibling is tidied up.
	add("tidy", short, Machine{Budget: may(crash, 1, again, 1), Tidy: true}, "ww", "wr", "rr")
	add("tidy, lock file removed", short, Machine{Budget: may(rmP, 1), Tidy: true}, "www", "wwr")
	add("tidy, slow", short, Machine{Budget: may(crash, 1), Turnstile: true, Tidy: true, Slow: true}, "ww", "wr", "rr")
	add("tidy", long, Machine{Budget: may(crash, 1, rmS, 1), Tidy: true}, three...)
	add("tidy, stopped", long, Machine{Budget: may(stop, 1), Tidy: true}, "www", "wwr", "wrr")
	add("tidy, debris", short, Machine{Budget: may(crash, 1), Tidy: true, DeadFile: true}, "ww", "wr", "rr", "www", "wwr")

	// The fence.
	add("fence", short, Machine{Budget: may(crash, 1, rmS, 1), Fence: true}, "ww", "www")
	add("fence, clock set back", short, Machine{Budget: may(crash, 1, setback, 1), Fence: true, Tidy: true}, "ww", "www")

	// Programs that know less. Those that only create, and flock(1), are kept out and keep
	// out. Those that steal are as a hand to the others: of participants there are never two.
	add("O_EXCL only", short, Machine{Budget: may(crash, 1), Beside: true}, "wF", "rF", "wwF", "wrF")
	add("O_EXCL only, sibling removed", short, Machine{Budget: may(crash, 1, rmS, 1), Beside: true}, "wF", "rF", "wwF")
	add("flock(1)", short, Machine{Budget: may(crash, 1), Beside: true, Tidy: true}, "wL", "rL", "wwL", "wrL")
	add("flock(1), slow", short, Machine{Budget: may(stop, 1), Turnstile: true, Slow: true, Beside: true}, "wL", "rL", "wwL", "wrL")
	add("thief by pid", short, Machine{Budget: may(crash, 1)}, "wK", "rK", "wwK", "wrK")
	add("marker only", short, Machine{Budget: may(crash, 1)}, "wE", "rE", "wwE", "wrE")
	add("marker only, debris", short, Machine{Budget: may(crash, 1), DeadFile: true, DeadMarker: true, Beside: true}, "wE", "rE", "wwE")
	add("O_EXCL only", long, Machine{Budget: may(crash, 2, rmS, 1), Beside: true}, "wwF", "wrF", "rrF")
	add("thief by pid", long, Machine{Budget: may(crash, 2, rmS, 1)}, "wwK", "wrK")
	add("marker only", long, Machine{Budget: may(crash, 2, rmS, 1)}, "wwE", "wrE")

	// Fallback mode.
	add("fallback", short, Machine{}, "bb", "bbb")
	add("fallback, dead file", short, Machine{DeadFile: true}, "bb", "bbb")
	add("fallback, debris", short, Machine{DeadFile: true, DeadMarker: true}, "bb", "bbb")
	add("fallback, crash", short, Machine{Budget: may(crash, 1)}, "bb", "bbb")
	add("fallback, debris, crash", short, Machine{Budget: may(crash, 1), DeadFile: true, DeadMarker: true}, "bb")
	add("fallback, debris, crash", long, Machine{Budget: may(crash, 1), DeadFile: true, DeadMarker: true}, "bbb")
	add("fallback, crashes", long, Machine{Budget: may(crash, 2)}, "bb", "bbb")
	return append(all, halfCases()...)
}

// halfCases are those of the halves: with one process more, or one crash more, than the cases above.
func halfCases() (all []Case) {
	var of part
	add := func(name string, long bool, m Machine, roles ...string) {
		for _, r := range roles {
			m.Name, m.Roles = name, []Role(r)
			half, can := m.half(of)
			if !can {
				panic("model: no case of a half: " + m.String())
			}
			all = append(all, Case{half, long})
		}
	}
	const short, long = false, true

	of = lockFileHalf
	add("crashes", short, Machine{Budget: may(crash, 3)}, "www", "wwr", "wrr", "rrr")
	add("crashes", short, Machine{Budget: may(crash, 3)}, "wwww")
	add("crashes", long, Machine{Budget: may(crash, 3)}, "wwwr", "rrrr")
	add("crashes", long, Machine{Budget: may(crash, 2)}, "wwrr", "wrrr")
	add("debris, crash", short, Machine{Budget: may(crash, 2), DeadFile: true, DeadMarker: true}, "www", "wwr", "wwww")
	add("debris, crash", long, Machine{Budget: may(crash, 1), DeadFile: true, DeadMarker: true}, "wwwr", "wrrr")
	add("debris, marker removed", short, Machine{Budget: may(crash, 3, rmM, 1), DeadFile: true, DeadMarker: true}, "www", "wrr")
	add("lock file removed", short, Machine{Budget: may(crash, 3, rmP, 2)}, "www")
	add("lock file removed and replaced", long, Machine{Budget: may(crash, 1, rmP, 1, mvP, 1)}, "www", "wwr")
	add("tries and looks", short, Machine{Budget: may(crash, 2)}, "wwwi", "wri", "wtu", "tui")
	add("tries and looks", long, Machine{Budget: may(crash, 2)}, "wwri")
	add("cancelled", short, Machine{Budget: may(cancel, 2, crash, 2)}, "www", "wwr")
	add("cancelled", long, Machine{Budget: may(cancel, 1, crash, 1)}, "wwwr", "wwrr")
	add("unlink fails, children", short, Machine{Budget: may(noUnl, 2, crash, 2, child, 1)}, "www", "wwr")
	add("exec, stopped", short, Machine{Budget: may(execd, 1, stop, 1, crash, 1)}, "www", "wwr")
	add("O_EXCL only", short, Machine{Budget: may(crash, 3), Beside: true}, "wwF", "wwwF")
	add("O_EXCL only", long, Machine{Budget: may(crash, 3), Beside: true}, "wrrF")
	add("thief by pid", short, Machine{Budget: may(crash, 2)}, "wwwK")
	add("thief by pid", long, Machine{Budget: may(crash, 2)}, "wwrK")
	add("marker only, debris", short, Machine{Budget: may(crash, 1), DeadFile: true, DeadMarker: true, Beside: true}, "wwwE")

	of = queueHalf
	inOrder := Machine{Budget: may(again, 1), Turnstile: true, Order: true}
	add("in order", short, inOrder, "wwww", "rrrr", "wwwww", "wwwwt")
	add("in order", long, inOrder, "wwwwr", "wwwrr", "wwwwu")
	add("stopped, crash", short, Machine{Budget: may(stop, 1, crash, 1), Turnstile: true}, "wwww", "rrrr", "wwwr")
	add("stopped, crash", long, Machine{Budget: may(stop, 2, crash, 1), Turnstile: true}, "wwwr", "wwrr", "wwwww")
	add("stopped, sibling removed", short, Machine{Budget: may(stop, 1, rmS, 1), Turnstile: true}, "www", "wwr")
	add("stopped, sibling removed", long, Machine{Budget: may(stop, 1, rmS, 1), Turnstile: true}, "wwww", "wwrr")
	add("crashes, sibling removed and replaced", short, Machine{Budget: may(crash, 2, rmS, 1, mvS, 1), Turnstile: true}, "www")
	add("cancelled, crash", short, Machine{Budget: may(cancel, 2, crash, 1), Turnstile: true}, "wwww", "wwwr")
	add("cancelled, sibling removed", long, Machine{Budget: may(cancel, 1, rmS, 1), Turnstile: true}, "wwwr")
	add("slow", short, Machine{Budget: may(crash, 1), Turnstile: true, Slow: true}, "wwww", "wwrr")
	add("tidy", short, Machine{Budget: may(crash, 2), Tidy: true}, "wwww", "wwrr")
	add("tidy, come again", long, Machine{Budget: may(crash, 1, again, 1), Tidy: true}, "wwwr", "wwwww")
	add("tidy, turnstile", short, Machine{Budget: may(crash, 1), Turnstile: true, Tidy: true}, "wwww", "wwwr")
	add("tidy, turnstile, stopped", long, Machine{Budget: may(stop, 1, again, 1), Turnstile: true, Tidy: true}, "wwww")
	add("flock(1), tidy", short, Machine{Budget: may(crash, 1), Turnstile: true, Tidy: true, Beside: true}, "wwwL")
	add("flock(1), slow", short, Machine{Budget: may(stop, 1), Turnstile: true, Slow: true, Beside: true}, "wwwL")
	return all
}
