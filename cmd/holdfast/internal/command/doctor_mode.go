package command

import "slices"

// mode is how holdfast judges holders in a folder. The texts are for programs.
type mode string

const (
	modeProof     mode = "kernel-proof"
	modeUntrusted mode = "kernel-lock"
	modeFallback  mode = "fallback"
	modeNone      mode = "none"
)

// decide draws the conclusion from the checks.
func (r *report) decide() mode {
	kernel := slices.ContainsFunc(r.Checks, func(c check) bool { return c.Name == checkDescriptors && c.Result == good })
	proven := slices.ContainsFunc(r.Checks, func(c check) bool { return c.Name == checkDeath && c.Result == good })
	switch {
	case r.worst() == bad:
		return modeNone
	case !kernel:
		return modeFallback
	case !r.Filesystem.Trusted, !proven:
		return modeUntrusted
	}
	return modeProof
}

func (m mode) exitCode() int {
	switch m {
	case modeProof:
		return exitOK
	case modeUntrusted, modeFallback:
		return exitWeaker
	}
	return exitError
}

// title is the mode in words for people.
func (m mode) title() string {
	switch m {
	case modeProof:
		return "kernel proof"
	case modeUntrusted:
		return "kernel lock, on a filesystem that is not trusted: weaker"
	case modeFallback:
		return "fallback, without a kernel lock: weaker"
	}
	return "none: locks do not work here"
}

// meaning says what a mode is worth.
func (m mode) meaning() string {
	switch m {
	case modeProof:
		return `The kernel itself says whether a holder lives. A holder that is alive keeps its
lock, however long it takes; one that died, however it died, is replaced at once.
No age and no pid is guessed at.`
	case modeUntrusted:
		return `There is a kernel lock, and holdfast takes it, but it proves nothing alone: it may
be another machine's as well. A holder counts as dead only if its process is seen
to be gone too, on the same machine. Of a holder on another machine nothing can be
known but the age of its claim, which it renews: one that stops doing so for two
hours (frozen, or cut off) can be taken for dead while it lives. It then learns so
("lost"), and the fence lets whatever it writes to refuse it. A local filesystem
has none of this.`
	case modeFallback:
		return `No kernel lock can be had. The lock file decides, with the pid in it, the start of
that process, the boot, the host, and at last the age of the claim, which its holder
renews. A holder on this machine that died is found out by its pid. One that is
elsewhere, or can't be told from another, and does not renew its claim for two hours
(frozen, or cut off) can be taken for dead while it lives. It then learns so
("lost"), and the fence lets whatever it writes to refuse it. A local filesystem on
a system with flock has none of this.`
	}
	return `Do not rely on holdfast in this folder: see what is marked "bad" above.`
}
