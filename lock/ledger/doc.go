// Package ledger keeps an append-only sequence of events in a folder, one file each.
// Programs in any language append to it under one lock.
//
//	l := ledger.Ledger{Dir: "proof", AgentID: "prover-1"}
//	seq, err := l.Append(ctx, []byte(`{"type":"node_created","node_id":"1.2"}`))
//
//	for event, err := range l.Events(0) { ... }     // no lock is needed to read
//	for problem, err := range l.Verify(nil) { ... } // what is wrong, and what to do
//
// The format is that of af, a command with which agents work on a proof: see FORMATS.md.
//
// # On disk
//
// In Dir/ledger lie
//
//	event-000001.json        the events: immutable, numbered from 1 without gap, JSON;
//	                         all of one prefix, which need not be this one
//	ledger.lock              while a process appends: its claim, one JSON object
//	ledger.lock.flock        stays; see package lock
//	.event-*.tmp             an event that is being written, or was when its writer died
//	.batch                   there while several events are published together
//	.head                    where to look for the head; may be absent, or wrong
//	.claims                  see package claims; may be absent
//
// To append: take ledger.lock; write a temporary file, fsync it; rename it to the next
// number, which replaces nothing; fsync the folder; release. Another program may do the
// same with an ordinary O_EXCL file, or with mkdir, as its lock. What lies at ledger.lock
// is respected and waited for. It is removed only when the evidence says that its holder is
// dead (see package lock). Age proves nothing here.
//
// ledger.lock holds agent_id and acquired_at (RFC 3339) beside the fields of
// evidence.Claim.
//
// .batch is {"id":"...","events":N}: the events that are still to be published are
// .event-ID-000001.tmp to .event-ID-N.tmp, in this order. .head is
// {"sequence":N,"swept_at":"..."}, and spaces. It says that event N exists, unless somebody
// removed it, and when abandoned temporary files were last looked for. Further fields are
// ignored in both.
package ledger
