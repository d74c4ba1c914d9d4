package command

const holdSynopsis = "holdfast hold [-owner PID] [-timeout D] [-sh] LOCK"

const holdHelp = `Waits for the lock, has it held for the life of another process, the owner, and returns:
a session. The lock is held by a process of its own, the keeper, which holdfast leaves
behind. The session ends, and the lock is free,

  - when the owner has ended, however that happened (in some milliseconds)
  - by "holdfast release LOCK NONCE"
  - when the keeper is ended, by whatever signal

The next holder learns which (HOLDFAST_PREDECESSOR, see holdfast help run): "how" is "released"
after holdfast release alone. Else it is "died", as the work may be half done, and "evidence" says
"its owner ended without releasing the lock", however the owner ended, or that the keeper was
told to end, or killed. So a script that has done its work ends with holdfast release.

The owner is the process that has started "holdfast hold": in a script, or at a prompt, the
shell. A process that ends with this very command is no use as one: a make recipe's
shell, "sh -c", sudo, or the part of a shell in ( ). Where holdfast can tell (Linux) it
warns of such an owner, and with -sh, in $( ), begins no session: bash has such a part for
any redirection there. Name another one then, such as -owner $$ for the shell itself.

  -owner PID     the process for whose life the lock is held
  -timeout D     wait no longer than D; 0 does not wait. Without it, the wait has no end
  -sh            print lines for the eval of a shell, instead of JSON

It waits as "holdfast run" does: in line, saying who holds the lock, until Ctrl-C. Then, or
if it is killed, nothing is left behind. Nothing is held unless the output was written: with
standard output closed (or /dev/null opened for both ways, which looks the same) it is refused.

It prints one line: {"path", "nonce", "fence", "keeper_pid", "owner_pid"}. With -sh it
sets and exports HOLDFAST_LOCK, HOLDFAST_NONCE, HOLDFAST_FENCE, HOLDFAST_KEEPER,
HOLDFAST_OWNER and HOLDFAST_HELD. A further session's take the place of these, but for
HOLDFAST_HELD, which has all: by it, "holdfast run" of a lock that the shell itself has
fails at once. If the lock can't be had, it prints what makes eval fail, with the exit code;
if holdfast is killed, nothing, which eval takes for success: see the example. The nonce is what it takes to release the lock; the lock file shows it.

The processes that the owner starts don't hold the lock: when the owner has ended, it is
free, though they may still run. Use "holdfast run" for commands that are to hold too, or
the fence. The keeper holds the lock on no terminal, in no folder and by no file of the
caller's, so it outlives the login unless the system ends all of a user's processes then.

exit codes:
  0    the lock is held
  64   wrong use, such as a folder as LOCK
  75   the lock could not be had (somebody holds it, or the timeout passed, or the
       shell has it already)
  128+n  signal n came during the wait
  1    anything else that went wrong, such as an owner who has ended

examples:
  s=$(holdfast hold -sh deploy.lock) && eval "$s" || exit      # in a script
  holdfast hold -owner $PPID work.lock | jq -r .nonce
  holdfast hold -sh -owner $PPID deploy.lock >session          # for ". ./session" in later shells
`

const releaseSynopsis = "holdfast release LOCK NONCE"

const releaseHelp = `Ends a session that "holdfast hold" has begun, and returns when the lock is free. NONCE
is what hold has printed. A session that has ended already is told from one that was
ended by this, and any other holder of the lock is left alone.

It asks the keeper by a signal (SIGUSR1; on Windows by an event), after it has made sure that the
process is the one that the lock file names. So it works for the keeper's user and root, on
the keeper's machine, and in its pid namespace (container).

exit codes:
  0    done: the lock is free, or somebody else has it by now
  4    this session does not have the lock: it has ended, or there never was one; nothing
       was changed
  64   wrong use
  1    anything else that went wrong, such as a keeper that is another user's, or stopped
       for more than 30 seconds

example:
  . ./session; holdfast release "$HOLDFAST_LOCK" "$HOLDFAST_NONCE"
`
