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

// modes are the modes in words for people, with what each is worth, and the exit code.
var modes = map[mode]struct {
	title, meaning string
	code           int
}{
	modeProof: {"kernel proof", `The kernel itself says whether a holder lives. A holder that is alive keeps its
lock, however long it takes; one that died, however it died, is replaced at once.
No age and no pid is guessed at.`, exitOK},
	modeUntrusted: {"kernel lock, on a filesystem that is not trusted: weaker", `There is a kernel lock, and holdfast takes it, but it proves nothing alone: it may
be another machine's as well. A holder counts as dead only if its process is seen
to be gone too, on the same machine. Of a holder on another machine nothing can be
known but the age of its claim, which it renews` + robbed + "has none of this.", exitWeaker},
	modeFallback: {"fallback, without a kernel lock: weaker", `No kernel lock can be had. The lock file decides, with the pid in it, the start of
that process, the boot, the host, and at last the age of the claim, which its holder
renews. A holder on this machine that died is found out by its pid. Of one that is
elsewhere, or can't be told from another, only the age is known` + robbed + "on\na system with flock has none of this.", exitWeaker},
	modeNone: {"none: locks do not work here", `Do not rely on holdfast in this folder: see what is marked "bad" above.`, exitError},
}

const robbed = `: one that stops doing so for two
hours (frozen, or cut off) can be taken for dead while it lives. It then learns so
("lost"), and the fence lets whatever it writes to refuse it. A local filesystem
`
