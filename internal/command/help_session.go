package command

const holdSynopsis = "holdfast hold [-owner PID] [-ttl D] [-timeout D] [-sh] LOCK"

const holdHelp = `Waits for the lock, has it held for the life of another process, the owner, and returns:
a session. The lock is held by a process of its own, the keeper, which holdfast leaves
behind. The session ends, and the lock is free,

  - when the owner has ended, however that happened (in some milliseconds)
  - by "holdfast release LOCK NONCE"
  - when the ttl has passed without "holdfast renew LOCK NONCE"
  - when the keeper is ended, by whatever signal

The owner is the process that has started "holdfast hold": in a script, or at a prompt, the
shell. A process that ends with this very command is no use as one: a make recipe's
shell, "sh -c", sudo, or the part of a shell in ( ). Where holdfast can tell (Linux) it
warns of such an owner, and with -sh, in $( ), begins no session: bash has such a part for
any redirection there. Name another one then, such as -owner $$ for the shell itself.

  -owner PID     the process for whose life the lock is held
  -ttl D         end the session unless it is renewed within D, such as 90s or 1h30m,
                 counted from its begin and each renewal; time in which the machine is
                 suspended counts. Without it, only the owner's end counts
  -timeout D     wait no longer than D; 0 does not wait. Without it, the wait has no end
  -sh            print lines for the eval of a shell, instead of JSON

It waits as "holdfast run" does: in line, saying who holds the lock, until Ctrl-C. Then, or
if it is killed, nothing is left behind. Nothing is held unless the output was written.

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

The keeper listens at a socket named after the nonce, in the folder holdfast of
XDG_RUNTIME_DIR, or holdfast-UID in TMPDIR (/tmp), which is its user's alone; on Windows,
at a named pipe for its user alone.

exit codes:
  0    the lock is held
  64   wrong use, such as a folder as LOCK
  75   the lock could not be had (somebody holds it, or the timeout passed, or the
       shell has it already)
  128+n  signal n came during the wait
  1    anything else that went wrong, such as an owner who has ended

examples:
  s=$(holdfast hold -sh deploy.lock) && eval "$s" || exit      # in a script
  holdfast hold -owner $PPID -ttl 10m work.lock | jq -r .nonce
  holdfast hold -sh -owner $PPID deploy.lock >session          # for ". ./session" in later shells
`

const releaseSynopsis = "holdfast release LOCK NONCE"

const releaseHelp = `Ends a session that "holdfast hold" has begun, and returns when the lock is free. NONCE
is what hold has printed. A session that has ended already is told from one that was
ended by this, and whoever has the lock by now is left alone.

` + sessionCodes + `
example:
  . ./session; holdfast release "$HOLDFAST_LOCK" "$HOLDFAST_NONCE"
`

const renewSynopsis = "holdfast renew LOCK NONCE"

const renewHelp = `Has the whole ttl of a session pass anew, from now on. For a session without a ttl it only
tells whether that still has the lock.

` + sessionCodes + `
example:
  . ./session; while sleep 60; do holdfast renew "$HOLDFAST_LOCK" "$HOLDFAST_NONCE" || exit; done
`

const transferSynopsis = "holdfast transfer -to PID LOCK NONCE"

const transferHelp = `Makes another process the owner of a session: the lock is held for its life from now on,
and no longer for that of the one before. If PID has ended, or can't be watched, nothing
changes. The ttl is not renewed.

  -to PID    the new owner

` + sessionCodes + `
example:
  . ./session; holdfast transfer -to $PPID "$HOLDFAST_LOCK" "$HOLDFAST_NONCE"
`

const sessionCodes = `exit codes:
  0    done
  4    this session has ended already, or never was; nothing was changed
  64   wrong use, such as a NONCE of another LOCK
  118  the lock was lost: its file is no longer the session's
  1    anything else that went wrong
`
