package command

import (
	"fmt"
	"strings"
)

// overview is what holdfast says of itself.
func (a *app) overview() string {
	var b strings.Builder
	b.WriteString(`holdfast holds a lock between processes while a command runs. The kernel, not a
guess, says whether a holder is alive: a lock whose holder was killed is free at
once, and a lock whose holder lives is never stolen, however old it is.

usage:
`)
	for _, c := range commands() {
		if c.summary != "" {
			fmt.Fprintf(&b, "  holdfast %-14s %s\n", c.name, c.summary)
		}
	}
	b.WriteString(`
examples:
  holdfast run deploy.lock -- ./deploy production   # wait for the lock, then deploy
  holdfast run -try sync.lock -- ./sync             # give up at once if it is held
  holdfast status deploy.lock                       # who holds it, since when, alive?
  holdfast doctor .                                 # what are locks worth in this folder?
`)
	if a.open != nil {
		b.WriteString(databaseOverview)
	}
	b.WriteString(`
"holdfast help COMMAND" explains a command, its flags and its exit codes.
`)
	return b.String()
}

func (a *app) help(args []string) int {
	flags := newFlags("help")
	if code, ok := a.parse(flags, args); !ok {
		return code
	}
	if flags.NArg() == 0 {
		fmt.Fprint(a.stdout, a.overview())
		return exitOK
	}
	if members := group(flags.Arg(0)); flags.NArg() == 1 && len(members) > 0 {
		for i, c := range members {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			fmt.Fprint(a.stdout, a.manual(&c))
		}
		return exitOK
	}
	switch c, rest := lookUp(flags.Args()); {
	case c == nil || c.summary == "":
		return a.unknownCommand(flags.Args())
	case len(rest) > 0:
		return a.misuse("help", "one COMMAND is wanted")
	default:
		fmt.Fprint(a.stdout, a.manual(c))
		return exitOK
	}
}

// manual is the whole help text of a command.
func (a *app) manual(c *command) string {
	text := "usage: " + a.usage(c) + "\n\n" + c.help
	if a.open != nil {
		text += c.database.help
	}
	return text
}

// usage is how a command is called: the words behind "usage: ".
func (a *app) usage(c *command) string {
	if a.open == nil || c.database.synopsis == "" {
		return c.synopsis
	}
	return c.synopsis + "\n       " + c.database.synopsis
}

const runSynopsis = "holdfast run [-also LOCK]... [-try] [-timeout D] [-shared | -permits N] [-nested] [-close] [-kill-tree [-grace D]] [-conflict-exit-code N] [-label TEXT] [-quiet] [-stale-after D] [-mode MODE] [-require-kernel-lock] LOCK [--] COMMAND..."

const runHelp = `Waits for the lock, holds it while COMMAND runs, and exits with its status.

LOCK is the path of the lock file, in a folder that exists. It is there while
someone holds the lock; beside it appears LOCK.flock, the queue of those who want it,
which stays. After one second of waiting, holdfast says who holds the lock and
why they are believed to be alive, and again when the holder changes.

There is one LOCK. What follows is COMMAND, with its own flags and its own "--"; a "--" right
behind LOCK is left out. A LOCK that names a program is refused, as LOCK was forgotten then:
"./make" is a lock file of the name of one.

  -also LOCK     a further lock; it can be given several times. All are held, or none. They
                 are taken in an order that does not depend on the order of the arguments.
                 So two calls that want the same locks never wait for each other
  -try           do not wait
  -timeout D     wait no longer than D, such as 90s or 1h30m; 0 is -try. Without it,
                 the wait has no end
  -shared        as a reader: any number of readers hold a lock together, but not beside
                 an exclusive holder
  -permits N     have one of N permits of the lock, from 1 to 1000, and not all of it: see
                 below
  -nested        where a process above holds the lock, and this one has it from there, run
                 COMMAND under that hold, and not fail at once. It ends with a release by
                 the process above, as for all that it has started. HOLDFAST_LOCK names
                 the locks that were taken, if any. A readers' lock is not had so
  -close         the lock is holdfast's alone: it is free when COMMAND has ended, or
                 holdfast was killed, whatever COMMAND has left behind
  -kill-tree     also end all descendants of COMMAND, even those in the background, when
                 COMMAND has ended, or the lock is lost, or holdfast is told to end
                 (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT): by SIGTERM, and by SIGKILL
                 after the grace (Linux)
  -grace D       how long -kill-tree leaves them to end by themselves; 10s without it
  -conflict-exit-code N
                 the exit code for a lock that could not be had, from 0 to 255 and not
                 118; 75 without it. It is for commands that end with 75 themselves; or
                 give 0 where it is as good that somebody else is at work
  -label TEXT    what the lock file, and so status and the page, tells others you are
                 doing. Without it, the command's name and its first argument, and that
                 only if it is plain words or a flag: a command line may hold secrets
                 (PGPASSWORD=..., a URL with a password), which are not shown. A secret
                 that is a plain word, and the first argument, can't be told from others
  -quiet         holdfast says nothing on standard error, which is COMMAND's alone; the
                 exit code tells
  -stale-after D the age beyond which a claim that proves nothing (another program's,
                 another host's) is taken for a dead holder's: 2h without it; "never" for
                 never
  -mode MODE     the mode of the lock file and what lies beside it, whatever the umask:
                 660 for a group, 666 for all; 600 without it, for one user. All users
                 of a lock must give the same, and need write permission for its folder
  -require-kernel-lock
                 fail where the kernel can't prove whether a holder lives (see doctor)

The command inherits standard input, output and error, and finds in its environment

  HOLDFAST_LOCK    the lock file, as an absolute path
  HOLDFAST_FENCE   a number greater than that of every earlier holder. Hand it to
                   what the command writes to: if that refuses a number smaller than
                   the greatest it has seen, a writer who came too late does no harm.
                   Readers (-shared) have none. With -also both variables have a
                   line for each, in the order in which they were taken; so a path with
                   a line break in it is refused then

  HOLDFAST_PREDECESSOR
                   JSON, {"holder": {...}, "how", "ended", "evidence", "note",
                   "noted_at"}: who had the lock before; how that ended, one of
                   released, died, taken for dead, unknown; and its last note (see
                   holdfast help note). A session (holdfast hold) that was not ended by
                   holdfast release has died, and "evidence" says of what. Empty if
                   nothing is known; a line for each lock with -also

  HOLDFAST_HELD    JSON, [{"path", "nonce", "pid"}]: the locks held by holdfast and by
                   the processes above it. Whoever wants one of them again is refused
                   at once, as long as that nonce is in the lock file

  HOLDFAST_PERMIT  with -permits, the number of the permit, from 1 to N, which nobody else
                   has at the same time: for a port, or a folder, of one's own

With -permits N at most N commands run at a time. Each permit is a lock of its own, beside
LOCK: of slots.lock, slots.permit-1.lock to slots.permit-N.lock. So a holder who was killed
has given it back, and all that is said here of the lock file, and of the fence, is so of
the permit. LOCK is the gate: who waits stands in its queue, first come, first served, and
the first of them has whichever permit comes free first. "holdfast status LOCK" says who
has the permits, and "holdfast list" has each in a line. A call without -permits is for all of
LOCK: it waits for those who have permits, or with -try is refused, and nobody gets one
meanwhile.

Callers should all give the same N. If not, each takes one of the permits from 1 to their own
N. So no more than the greatest N run, and who waits for the few keeps back whoever has come
later. To change N, give another: nothing is taken from those who have a higher number.
Who is stopped by Ctrl-Z while it waits (Linux) goes to the end of the queue when it goes
on; by SIGSTOP, as the first, it keeps back those behind it.
There are no permits of several locks, or of weight: one call has one permit, and a second
one, below it, is refused. -also, -shared and -nested are refused, too.

Every signal that can be caught is handed on to the command. A Ctrl-C, Ctrl-\ or Ctrl-Z
of the terminal reaches the command by itself, and only once. Some signals are
holdfast's own: SIGCHLD, SIGURG, SIGIO, SIGPROF, SIGPIPE, SIGXFSZ, and those that a
program's own faults cause. SIGTSTP stops holdfast as well. During the wait SIGINT,
SIGTERM, SIGHUP, SIGQUIT and SIGABRT end the wait, and the command is not run. Other
signals are for the command, and ignored then.

If holdfast is killed with SIGKILL, so is the command, on Linux and FreeBSD. A command
that is set-user-ID or has file capabilities is not, nor is any on other systems.

Processes that the command leaves behind, or that outlive it when it is killed, are not
killed without -kill-tree. They keep the lock until the last of them has ended (Linux,
on a local filesystem), by a descriptor that they inherit: the first free one from 3 on.
A process that is not to keep the lock closes it ("./daemon 3>&- &"); or use -close.
Where they can't keep the lock, and may go on writing, use the fence.

If the lock is lost while the command runs, the exit code is 118, whatever the command's
own was: others may have been at work at the same time. A lock is lost only if a hand
removes the lock file or, on network filesystems, if its holder was cut off for hours.
On a local filesystem the loss shows only at the end. Where holdfast looks while it
holds (see holdfast doctor), the command is sent SIGTERM.

exit codes:
  the command's own, or 128+n if it died of signal n
  64   wrong use, such as a folder as LOCK
  75   the lock, or a permit, could not be had (somebody holds it, or the timeout
       passed, or a process above holds it), and the command was not run; another code with
       -conflict-exit-code
  118  the lock was lost while the command ran
  126  the command could not be executed
  127  the command was not found
  128+n  signal n came during the wait
  1    anything else that went wrong

examples:
  holdfast run deploy.lock -- ./deploy production
  holdfast run -timeout 10m -label "nightly sync" sync.lock -- rsync -a src/ dst/
  holdfast run -try -conflict-exit-code 0 cron.lock -- ./job    # held is fine
  holdfast run db.lock -- sh -c './load --fence "$HOLDFAST_FENCE" && ./check'
  holdfast run -also assets.lock db.lock -- ./check    # both locks, or none
  holdfast run -permits 4 slots.lock -- ./build    # four builds at a time on this machine
`

const statusSynopsis = "holdfast status [-json] LOCK"

const statusHelp = `Tells who holds a lock, since when, whether they are alive, and how that is known; and
who has its permits (holdfast run -permits). A lock of which somebody has a permit is held.
Nothing is changed by looking, and nobody who waits for the lock is disturbed.

  -json    one line: {"path", "state", "evidence", "holder": {...}}; state is one of
           free, held, dead, unknown; there is no holder if there is no claim, or if
           the holder has gone. "gone" is the claim of a holder who has gone, and whose
           processes still have the lock. "shared" says that readers have it;
           "processes" are the holders, where the kernel's list tells more than the
           claim, and "stopped" says that one is stopped by a signal; "note" is what the
           holder last said of its work, at "noted_at"; "last" is who had a free lock
           last, as in HOLDFAST_PREDECESSOR (see holdfast help run); "waiters" are in the
           order of the queue, with the time since when they wait (all three Linux).
           "not_permitted" says that this user may not read the claim.
           "fence" is the last number that a holder was given (see holdfast help run).
           "permits" are those that somebody has: each with its "number" and what is here

exit codes:
  0    free
  3    held: its holder is alive
  4    dead: its holder is dead; whoever acquires the lock next takes it over
  5    unknown: it can't be told; treated as held
  64   wrong use, such as a folder as LOCK
  1    anything that went wrong

example:
  holdfast status -json deploy.lock
`

const listSynopsis = "holdfast list [-waiting] [-json] DIR"

const listHelp = `Tells of every lock below a folder what status tells of one: each lock file that
has its LOCK.flock beside it, each LOCK.flock alone (a free lock), and each file
named *.lock, save those of which status says "not a lock file" (a yarn.lock). An empty
file is listed: who wants that lock waits for it. Symbolic links below DIR are not
followed.

  -waiting   also the waiters of each lock, below it, in the order of the queue
  -json      one line for each lock, as they are found, each like that of status

What can't be read is named on standard error, and the rest is listed.

exit codes:
  0    all was listed
  64   wrong use
  1    something could not be read, or DIR is not there

example:
  holdfast list -json data | jq 'select(.state == "dead") | .path'
`

const breakSynopsis = "holdfast break [-force NONCE] [-json] LOCK"

const breakHelp = `Removes the lock file of a dead holder. This is seldom needed: whoever acquires the
lock next takes it over anyway. When the holder is alive, or may be, nothing is
changed.

  -force NONCE   remove the lock file of a holder who may be alive or dead, if its
                 claim has this nonce ("holdfast status -json" shows it). So you break
                 the one holding that you looked at, and not the next. If that process
                 lives after all, this does not end it, and two may come to work under
                 one lock. Where somebody has the kernel lock there is nothing to
                 break: end that process instead.
  -json          one line, that of status -json for the lock as it was found, with
                 "removed": true or false; also when it is refused

exit codes:
  0    removed, or there was nothing to remove
  64   wrong use, such as a folder as LOCK
  75   refused: the holder may be alive, or the claim has another nonce
  1    anything that went wrong

examples:
  holdfast break deploy.lock
  holdfast break -force 2FXC7MHQ5WZ3KJ6RTN4YPLVDB2 deploy.lock
`

const doctorSynopsis = "holdfast doctor [-json] DIR"

const doctorHelp = `Checks what locks in a folder are worth: the filesystem, whether the kernel lock
excludes between two descriptors and between two processes and is freed when its
holder is killed, permissions, and what this system tells of processes. It works in
a folder of its own inside DIR, which it removes.

  -json    the report as one line

exit codes:
  0    kernel proof: the kernel says whether a holder lives
  5    weaker: locks work, but liveness is judged by less; the report says by what
  64   wrong use
  1    locks do not work here, or DIR could not be examined

example:
  holdfast doctor data
`

const versionSynopsis = "holdfast version [-json]"

const versionHelp = `Prints the version of holdfast, of the Go that built it, and the system.

  -json    one line: {"version", "go", "os", "arch"}
`

const helpSynopsis = "holdfast help [COMMAND]"

const helpHelp = `Explains a command, or lists them all.
`
