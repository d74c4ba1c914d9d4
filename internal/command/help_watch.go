package command

const waitSynopsis = "holdfast wait [-timeout D] [-quiet] LOCK..."

const waitHelp = `Waits until the lock is free, and takes it from nobody. It stands in line as "holdfast
run" does, behind those who came before, and creates no lock file. A lock whose holder
is dead is free, and stays as it is; one that a dead holder's processes still have is
not. After one second of waiting, holdfast says who holds the lock, and again when the
holder changes.

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
