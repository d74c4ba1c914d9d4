package command

// databaseHelp is what the help of a command says of locks in a database, in a program with -pg.
type databaseHelp struct {
	synopsis string
	help     string
}

const databaseOverview = `
locks in a PostgreSQL database, by their keys, with run, status, list, break and serve:
  holdfast run -pg "host=db dbname=app" deploy/production -- ./deploy
  holdfast status -pg postgres://db/app deploy/production
  PGSERVICE=app holdfast list -pg ""                # by PGHOST, PGSERVICE etc.
`

// databaseConn is about the flag.
const databaseConn = `
-pg CONNSTRING: locks in a PostgreSQL database

CONNSTRING is a URL (postgres://db/app) or KEY=VALUE pairs ("host=db dbname=app"). What
it does not say, PGHOST, PGPORT, PGDATABASE, PGUSER, PGSERVICE and their like do; "" leaves
all to them. A password in it could be seen in the list of processes: use ~/.pgpass, a
service, or PGPASSWORD. holdfast shows it to nobody. The server is PostgreSQL 14 or later,
with no pooler in between. The first use of a database makes the schema holdfast in it.
`

// databaseKeys is about names of locks.
const databaseKeys = `
A lock's name is SPACE/NAME: what is before the first "/", and all behind it. #/NUMBER and
#/NUMBER,NUMBER are the advisory locks that programs take by number.
`

var runDatabase = databaseHelp{
	"holdfast run -pg CONNSTRING [-try] [-timeout D] [-shared | -permits N] [-kill-tree [-grace D]] [-conflict-exit-code N] [-label TEXT] [-quiet] [-also SPACE/NAME]... SPACE/NAME [--] COMMAND...",
	databaseConn + databaseKeys + `
A session of the server has the lock, and it is holdfast's: children can't hold it, too. It
is free when COMMAND has ended, or holdfast was killed, whatever COMMAND has left behind
(-kill-tree ends that as well). So -close, -stale-after and -require-kernel-lock are refused.
The label is the session's application_name, unless CONNSTRING or PGAPPNAME has one; the
server keeps 63 bytes of ASCII. -timeout counts from when the server has been reached, which
may take ten seconds for each address.

The lock is lost when the session ends: by a restart of the server, a network that is cut,
or whoever ends it (holdfast break). holdfast knows within ten seconds; COMMAND is then
sent SIGTERM, and the exit code is 118. HOLDFAST_LOCK is SPACE/NAME, and HOLDFAST_FENCE
grows with each holder of any lock of the database. HOLDFAST_PREDECESSOR is empty, and
"holdfast note" has nothing to note at. HOLDFAST_HELD does not name the lock: a command
that wants it again waits for itself, and holdfast says so. Nothing of CONNSTRING
is handed on; PGPASSWORD is, like all of the environment.

With -permits N, from 1 to 20, permits are locks, SPACE/NAME.permit-1 to N, of which
HOLDFAST_LOCK names one. Who waits as the first has a connection for each; who has a permit,
one. A second permit, below a command that has one, is not refused: it may be waited for in
vain.
`,
}

var statusDatabase = databaseHelp{
	"holdfast status -pg CONNSTRING [-json] SPACE/NAME",
	databaseConn + databaseKeys + `
path is SPACE/NAME; the state is free or held. holder has the pid of the server's backend,
the client's address as hostname, the application_name as cmd, and as nonce what
"holdfast break -force" wants. Readers, and sessions of which the role may not see more,
are in processes. There, and in waiters, is what the server says of each session: claim,
activity, query_start and blocked_by. key has the space and the name.
`,
}

var listDatabase = databaseHelp{
	"holdfast list -pg CONNSTRING [-waiting] [-json]",
	databaseConn + `
All advisory locks of the database that somebody has or waits for are listed, of whatever
program. Those without a name in holdfast's tables are in the space #, by their number.
`,
}

var breakDatabase = databaseHelp{
	"holdfast break -pg CONNSTRING [-force NONCE] [-json] SPACE/NAME",
	databaseConn + databaseKeys + `
Ends the session that has the lock, and with it all that it holds: it says how many locks
that are, and asks (standard input; y or yes). Readers are asked about one by one. A session
that is not the one that was looked at is never ended, even if it has its pid by now. The
holder, if it lives, is told that its lock is lost.

  -force NONCE   do not ask, and end the session with this nonce, if it has the lock
  -json          do not ask; without -force, nothing is ended. "ended" are the sessions,
                 each with the number of its locks

It takes the rights of pg_signal_backend and pg_read_all_stats to end others' sessions.
`,
}

var serveDatabase = databaseHelp{
	"holdfast serve -pg CONNSTRING [-addr HOST:PORT|unix:PATH] [-json] [DIR...]",
	databaseConn + `
The page shows the locks of the database, of whatever program, beside those of each DIR. A
server that does not answer is said to be out of reach, and asked again.
`,
}
