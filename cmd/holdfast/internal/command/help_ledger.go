package command

const ledgerAppendSynopsis = "holdfast ledger append [-if-sequence N] [-agent ID] [-timeout D] [-prefix P] DIR [EVENT...]"

const ledgerAppendHelp = `Appends events, each one JSON value, to the ledger in DIR/ledger, and prints the
number of the last one. DIR is made if it is missing, in a folder that exists. Without
EVENT, events are read from standard input. Several are appended all or none, with
nothing between them.

  -if-sequence N   append only if the last event is number N (0: the ledger is
                   empty): if nobody has appended since you looked
  -agent ID        what the lock file tells others of who is appending; without it,
                   the host and the pid
  -timeout D       wait no longer than D for the ledger's lock; 5s without it, and 0
                   is to try once
  -prefix P        how the names of the event files begin, "" for names that are only
                   numbers. Without it, as those that are there begin, or "event-" in
                   a new ledger. A second prefix in a folder is refused

Programs that make the lock, DIR/ledger/ledger.lock, with O_EXCL or with mkdir are
waited for, and wait for us.

exit codes:
  0    appended: {"sequence":8} is the last one
  64   wrong use, or an event that is not JSON, or has more than 1 MB, or another prefix
       than the ledger has
  65   the ledger is not at N: somebody has appended
  75   the lock was not had in time
  1    anything else that went wrong

examples:
  holdfast ledger append proof '{"type":"custom_event"}'
  jq -c . events.json | holdfast ledger append -agent me proof
  holdfast ledger append -if-sequence 41 proof '{"type":"x"}' || [ $? -ne 65 ] || retry
`

const ledgerReadSynopsis = "holdfast ledger read [-after N] [-prefix P] DIR"

const ledgerReadHelp = `Prints the events of the ledger in DIR/ledger, a line each:

  {"sequence":1,"event":{...}}

No lock is taken. What is wrong with the ledger is said on standard error, with the name
of the file, and the rest is printed: an event that is missing, empty, truncated or too
large, or a file that is none of the ledger's.

  -after N    only those behind number N; files that are none of the ledger's are
              then not looked for
  -prefix P   how the names of the event files begin, "" for names that are only numbers;
              without it, as those that are there begin

exit codes:
  0    all was printed
  64   wrong use
  1    something is wrong with the ledger

example:
  holdfast ledger read proof | jq 'select(.event.type == "lock_acquired")'
`

const ledgerHeadSynopsis = "holdfast ledger head [-prefix P] DIR"

const ledgerHeadHelp = `Prints the number of the last event of the ledger in DIR/ledger: {"sequence":8}, or 0
if there is none. No lock is taken. ledger read tells whether an event before it is
missing.

  -prefix P   how the names of the event files begin, "" for names that are only numbers;
              without it, as those that are there begin

exit codes:
  0    printed
  64   wrong use
  1    the ledger could not be read, or its last event is missing

example:
  n=$(holdfast ledger head proof | jq .sequence)
`

const ledgerVerifySynopsis = "holdfast ledger verify [-json] [-prefix P] DIR"

const ledgerVerifyHelp = `Reads the whole ledger in DIR/ledger, and prints what is wrong with it, each with its
file, and what to do about it. Nothing is changed, and no lock is taken.

  missing      an event that is not there, though there are events behind it; or one of a
               batch that a dead writer has left
  damaged      a file that can't be what it should be: empty, truncated, too large, no JSON,
               a link; an event about a claim that can't be understood; or a snapshot of
               the claims that was made of other events: one was changed since
  unreadable   an event that could not be read
  misnamed     a file that may be meant as an event, such as event-7.json
  alien        a file that is certainly none of the ledger's: it does no harm

  -json       a line for each: {"kind", "path", "sequence", "missing", "what", "next"};
              sequence is the event's number, if it is one, and missing how many are
              missing in a row
  -prefix P   how the names of the event files begin, "" for names that are only numbers;
              without it, as those that are there begin

"holdfast claim" reads only what has come since a snapshot, so it is this command that finds
what has happened to older events.

exit codes:
  0    the ledger is whole; there may be files that do no harm
  64   wrong use
  65   something is wrong with the ledger
  1    it could not be looked through

example:
  holdfast ledger verify proof || holdfast ledger verify -json proof | jq -r .path
`

const ledgerExportSynopsis = "holdfast ledger export [-after N] [-prefix P] DIR"

const ledgerExportHelp = `Prints the events of the ledger in DIR/ledger, each on a line: line N is event N.
"holdfast ledger append" makes a ledger of them again. No lock is taken. Where something
is wrong with the ledger the export ends; so if the exit code is 0, it is whole. (To have
the files byte for byte, copy the folder, without the files whose names begin with a dot.)

  -after N    only those behind number N, to be put behind an older export
  -prefix P   how the names of the event files begin, "" for names that are only numbers;
              without it, as those that are there begin

exit codes:
  0    all was printed
  64   wrong use
  65   something is wrong with the ledger: events behind that are not printed
  1    anything else that went wrong

examples:
  holdfast ledger export proof > proof.jsonl
  holdfast ledger export -after "$(wc -l < proof.jsonl)" proof >> proof.jsonl
  holdfast ledger append new < proof.jsonl
`

// conflictHelp is about what the commands for one claim print when they fail because of
// another one, or of none.
const conflictHelp = `NODE is numbers with dots between them, such as 1 or 1.2.3, of 128 characters at most; ID
is any text without control characters, of 1 KB at most.

With exit code 75 because of a claim, the line is the claim that is there. "conflict" in it
says why: "claimed" (by somebody else), "own" (this owner has it already), "expired", or
"none" (nobody has the node, and there is nothing but "node_id" beside it).

`

// claimSkewHelp is about a flag of all commands about claims, and claimFlagsHelp about the flags
// of those that write.
const (
	claimSkewHelp = `  -skew D     how much the clocks of those who claim may differ: claims count for so
              long beyond their expiry. 0 without it; all should agree on it
`
	claimFlagsHelp = claimSkewHelp +
		`  -agent ID, -timeout D, -prefix P   are those of "holdfast ledger append"
`
)

const claimTakeSynopsis = "holdfast claim take -owner ID [-skew D] [-agent ID] [-timeout D] [-prefix P] DIR NODE"

const claimTakeHelp = `Claims a node, such as 1.2.3, of the proof in DIR, and prints the claim:

  {"node_id":"1.2.3","owner":"...","acquired_at":"...","expires_at":"..."}

It expires after lock_timeout of DIR/meta.json, such as "90s", or after 5 minutes, unless
it is refreshed; that leaves acquired_at as it is. A node that is claimed is not waited
for.

` + conflictHelp + `  -owner ID   who claims it
` + claimFlagsHelp + `
exit codes:
  0    claimed
  64   wrong use
  75   it is claimed, or the ledger's lock was not had in time
  1    anything else that went wrong

example:
  holdfast claim take -owner agent-7 proof 1.2.3
`

const claimRefreshSynopsis = "holdfast claim refresh -owner ID [-skew D] [-agent ID] [-timeout D] [-prefix P] DIR NODE"

const claimRefreshHelp = `Makes a claim last for another lock_timeout from now, and prints it. A claim that has
expired can't be refreshed, as others were told that it is free.

` + conflictHelp + `  -owner ID   whose claim it is
` + claimFlagsHelp + `
exit codes:
  0    refreshed
  64   wrong use
  75   the claim is not that owner's, or no longer; or the ledger's lock was not had
  1    anything else that went wrong

example:
  while sleep 60; do holdfast claim refresh -owner agent-7 proof 1.2.3 || break; done
`

const claimReleaseSynopsis = "holdfast claim release -owner ID [-skew D] [-agent ID] [-timeout D] [-prefix P] DIR NODE"

const claimReleaseHelp = `Ends a claim.

` + conflictHelp + `  -owner ID   whose claim it is
` + claimFlagsHelp + `
exit codes:
  0    released
  64   wrong use
  75   the claim is not that owner's, or no longer; or the ledger's lock was not had
  1    anything else that went wrong

example:
  holdfast claim release -owner agent-7 proof 1.2.3
`

const claimListSynopsis = "holdfast claim list [-skew D] [-prefix P] DIR"

const claimListHelp = `Prints the claims that have not expired, a line each, as claim take does. No lock is
taken.

` + claimSkewHelp + `  -prefix P   is that of "holdfast ledger append"

exit codes:
  0    printed
  64   wrong use
  1    the ledger or a claim's event is damaged; the message names the file

example:
  holdfast claim list proof | jq -r .node_id
`

const claimReapSynopsis = "holdfast claim reap [-every D] [-skew D] [-agent ID] [-timeout D] [-prefix P] DIR"

const claimReapHelp = `Ends the claims that have expired, and prints them, a line each, as claim take does.

  -every D    do so again every D, until a signal comes
` + claimFlagsHelp + `
exit codes:
  0    reaped, or there was nothing to reap; or a signal has ended -every
  64   wrong use
  75   the ledger's lock was not had in time
  1    anything else that went wrong

example:
  holdfast claim reap -every 30s proof
`
