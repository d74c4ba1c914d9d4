// Package claims gives agents exclusive claims on the nodes of a proof, which expire
// unless they are refreshed.
//
//	m := &claims.Manager{Dir: "proof"}
//	claim, err := m.Claim(ctx, "1.2.3", "agent-7")   // ErrClaimed: somebody else has it
//	...
//	claim, err = m.Refresh(ctx, "1.2.3", "agent-7")  // before claim.ExpiresAt
//	err = m.Release(ctx, "1.2.3", "agent-7")
//
// The ledger in Dir (see package ledger) is the truth. Claims are its events
//
//	{"type":"lock_acquired","timestamp":T,"node_id":"1.2.3","owner":"agent-7","expires_at":T}
//	{"type":"lock_released","timestamp":T,"node_id":"1.2.3","owner":"agent-7"}
//	{"type":"lock_reaped","timestamp":T,"node_id":"1.2.3","owner":"agent-7"}
//
// where a further lock_acquired of the same owner refreshes, and the times are RFC 3339 with
// nanoseconds. For programs that look at files, Dir/locks/NODE.lock holds the claim
// on a node while there is one:
//
//	{"node_id":"1.2.3","owner":"agent-7","acquired_at":T,"expires_at":T}
//
// acquired_at is that of the first lock_acquired, and expires_at that of the last.
//
// Every change is decided with the ledger's lock held, on the state as of its last
// event. The event is written first, then the file; if a crash comes between, the
// next change puts the files right. A file that the ledger knows nothing of is
// another program's claim: it is respected until it expires.
//
// A Manager begins with the snapshot that an earlier one has left in the ledger's folder, so
// that it need not read the whole ledger: its cost grows with the number of claims, not of
// events. A snapshot that does not fit the ledger is ignored.
//
// lock_timeout in Dir/meta.json, such as "90s", says how long a claim lasts: from a second
// to an hour, or 5 minutes where it is not given. Further fields are ignored everywhere.
//
// The format of events and files is that of af, a command with which agents work on a
// proof: see FORMATS.md.
package claims
