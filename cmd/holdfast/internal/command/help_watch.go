package command

const waitSynopsis = "holdfast wait [-timeout D] [-quiet] LOCK..."

const waitHelp = `Waits until the lock is free, and takes it from nobody. It stands in line as "holdfast
run" does, behind those who came before, and creates no lock file. A lock whose holder
is dead is free, and stays as it is; one that a dead holder's processes still have is
not. Nor is one of which somebody has a permit (holdfast run -permits). After one second of
waiting, holdfast says who holds the lock, and again when the holder changes.

Several LOCKs are waited for one after the other. Each was free at one moment since the
call; they need not have been at the same moment, nor need one be free by now. To have
a lock, or several at once, for a command, use "holdfast run".

  -timeout D   wait no longer than D, such as 90s or 1h30m, for all LOCKs together; with
               0 only look. Without it, the wait has no end
  -quiet       say nothing on standard error; the exit code tells

exit codes:
  0      each lock was free
  64     wrong use, such as a folder as LOCK
  75     the timeout passed; or a process above holds the lock, and would be waited for in
         vain; or something is at the path that is no lock file
  128+n  signal n came (SIGINT, SIGTERM, SIGHUP, SIGQUIT)
  1      anything else that went wrong

example:
  holdfast wait -timeout 10m deploy.lock && echo the deployment is over
`

const watchSynopsis = "holdfast watch [-json] [-interval D] [DIR|LOCK...]"

const watchHelp = `Tells what becomes of locks until it is ended (Ctrl-C). Each DIR stands for every lock
below it, as for list; without any argument it is the current folder. Nothing is changed
by looking, and nobody who waits is disturbed.

It writes a line for each change, and at first one for each lock: when, what ("held",
"free", "dead", "unknown", or "waiting" for one who has begun to wait), which lock, and who.

  -json         a line of JSON for each change: {"at", "event"}, and what status -json
                has of the lock; for "waiting" also "waiter"
  -interval D   the time between two looks; 1s without it. What begins and ends between
                two looks is not seen

What can't be read is named on standard error. For a table that is drawn again and again:
watch -n 1 holdfast list -waiting

exit codes:
  0    a signal ended it
  64   wrong use
  1    the output could not be written

example:
  holdfast watch -json data | jq -r 'select(.event == "dead") | .path'
`
