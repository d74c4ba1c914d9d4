package command

const serveSynopsis = "holdfast serve [-addr HOST:PORT|unix:PATH] [-json] DIR..."

const serveHelp = `Serves a page that shows the locks below each DIR: who holds them, since when, on
what evidence they are believed to live, and who waits for whom. It refreshes itself.
Free locks are not shown, and nothing is changed by looking. A DIR that is named twice,
or is part of another, counts once. The page's address is printed as soon as it can be
opened; a signal (Ctrl-C) ends it.

  -addr HOST:PORT   where to listen; without it 127.0.0.1:0, a free port that only this
                    machine can reach. What locks say of their holders (pids, hosts,
                    labels) can be seen by all who reach the address: nobody
                    is asked for a password. 0.0.0.0:PORT is every address of this
                    machine; the first that works is printed
  -addr unix:PATH   listen at a socket that only this user can open. The socket of a
                    dead server is replaced, that of a living one is not. It is removed
                    at the end. PATH.lock beside it is the lock that tells them apart
  -json             print the address as {"url"}; of a socket as {"url", "socket"}

The same is at /api/advisory-locks as JSON, for curl and scripts: {"locks", "total",
"engines", "host", "at"}. Each lock has the fields of "holdfast status -json" (path,
state, evidence, holder), and further: pid, application_name, query_start, namespace
(its folder, from DIR), entity_id (its file), mode, granted (false: this one waits, and
there is no holder), duration (seconds), engine (the DIR, absolute), hostname,
blocked_by, and next (what can be done, in lines). What is not known is null, or left
out of holder. engines, and the page, say which DIR can't be read; the others are shown.

On a loopback address only requests for localhost or a loopback address are answered.
So no page from elsewhere can read the locks by having its own name lead here.

exit codes:
  0    a signal has ended it
  64   wrong use
  1    a DIR is not there or not a folder, the address can't be listened on (somebody
       does), or anything else that went wrong

examples:
  holdfast serve data
  holdfast serve -addr 127.0.0.1:8420 data /var/lib/agents
  holdfast serve -addr unix:/run/user/1000/locks.sock data
  curl -s --unix-socket /run/user/1000/locks.sock http://localhost/api/advisory-locks
  curl -s http://127.0.0.1:8420/api/advisory-locks | jq '.locks[] | select(.state == "dead")'
`
