// Package pg is holdfast's engine on PostgreSQL (14 or later): the same locks, for programs
// that have outgrown one machine, as session-level advisory locks of a database.
//
//	locks, err := pg.Open(ctx, pg.Options{Conn: "host=db dbname=app"})
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//	err = lock.Do(ctx, locks, lock.Key{Space: "agent", Name: id}, func(ctx context.Context, held lock.Hold) error { ... })
//
// A hold belongs to a session of the server, with a connection of its own, on which nothing
// else is done. So it survives every commit of the work that it protects, and ends when the
// server sees that connection end. Under a hold, by its context, further locks are acquired
// on the same session: nested holds need one connection, however deep.
//
// # Keys
//
// A lock is a number of 64 bits: the beginning of the SHA-256 of space and name. The
// table names has the name of each number: so two names with one number are found out
// (ErrCollision), and not taken for contention. A space that is registered as numeric
// (Locker.Register) uses the form of two numbers of 32 bits, its own and the name's, with
// no loss. The table spaces has each space as the one or the other, for good: so no two
// spaces have one number, and nobody uses a numeric space with names (ErrSpaceClash).
// The space Numbers is that of programs that lock by numbers alone.
//
// The tables are in a schema of their own, holdfast, whatever the search_path
// (Options.Schema, Schema). PurgeNames forgets names that have long been unused.
//
// # Fence
//
// Hold.Fence is raised in the table fences, through the session that has the lock, by the rule
// that all engines have (engine.NextFence), and is durable before it is given out. To refuse a
// late writer, keep it where you write, and check it there:
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// in the transaction of the work itself; if no row was changed, a later holder has
// written.
//
// # In a transaction
//
// Where the lock protects nothing but what one transaction writes, AcquireTx takes it in
// that transaction, until its end. It needs no further connection, has no fence, and is lost
// only with the transaction. The server sees deadlocks among locks and rows. It works behind a
// pooler.
//
// # Loss
//
// Every session that holds is asked for a sign of life, three times in ten seconds. If it
// ends (a restart of the server, pg_terminate_backend, a network that is cut), Hold.Lost of
// all its holds is closed and their contexts end, with ErrLost: within milliseconds where
// the server says so, and within ten seconds where nothing is heard. A session that waits
// can't be asked. The Locker has one further session, which never waits, and looks after
// those that do. It ends sessions that have stopped waiting and do not answer, and those that
// were given up, before this Locker asks for the same lock again. Others may have the lock
// from then on.
//
// A holder that is stopped, or cut off, keeps its lock for as long as the server believes
// in its connection: one that is cut off, about ten seconds; one that is stopped, for ever,
// unless there is an Options.Lease. Then the server ends a session after that time of
// silence. The holder counts from before its last sign of life, and so knows first.
//
// # Failover
//
// Locks are in the memory of one server; no replica has them. When one is promoted, all
// begin free there. Holders whose primary has ended are told, as of any loss, and the new
// primary does not wait for that. If the old one lives on, cut off, its holders are told
// nothing: they and those of the new one work side by side, until it is ended. So end it
// before anything is promoted, and check the fence where you write.
//
// A replica that was promoted may have missed the last that was written: with asynchronous
// replication by as much as it lagged. What may be missing is then
//
//   - fences: the next ones go on from the time of day, but the tables in which you check them
//     may have gone back;
//   - names: a lock is listed by its number until its name is used again by a process that
//     has not known it, or after half a day;
//   - spaces: one that was registered as numeric just before may now be used with names by
//     other programs. They do not exclude those that go by its number. The latter learn it
//     when they Register it again, at their next start: ErrSpaceClash.
//
// With synchronous replication (synchronous_standby_names) a fence, a name and a space are
// waited for, whatever the role's synchronous_commit says.
//
// A Locker goes on with a server that is of the same cluster (one that was promoted is), and
// refuses another one, and a standby. With several hosts in Options.Conn and
// target_session_attrs=read-write it finds the new primary by itself.
//
// # Children, and the command
//
// A session is one process's, and can't be handed to children, so there is no Attach as for
// lock files. The command cmd/holdfast has the flag --pg: "holdfast run"
// holds a lock while a command runs, and "holdfast break" ends the session of a holder.
//
// # Connections
//
// A Locker has up to 25 connections for locks, or pool_max_conns of Options.Conn, or as
// many as Options.Pool: two at least, and one more for its own session. It takes one for
// each hold that is not under another, and for each lock that goroutines wait for, however
// many: they stand in line in the process, first come, first served, and only the first is in
// the server's queue. So a process with many waiters has the share of one. Four in five
// connections may wait; an acquisition beyond that still tries.
// Two goroutines that acquire under one hold at the same time need a second connection
// while the first one waits. To release a lock of a session that waits for another, its wait
// is broken off, and begun again.
//
// Settings that locks need (time limits, keepalives) come with the connection, and beat the
// defaults of a role. Poolers that hand a session to others are found out, and refused
// (ErrPooler): connect to the server itself.
//
// # Deadlock
//
// The server finds a deadlock among sessions, that of nested holds included, after its
// deadlock_timeout: one of the waiters gets ErrDeadlock, and keeps what it has. The server
// can't see a goroutine that holds with one context and waits with another. Use
// lock.AcquireKeys, or one order for all.
//
// # Room
//
// All locks of all programs share one table of the server's. When that is full, new
// connections and other programs' writes fail, too. So a Locker has a quarter of it at most
// (Options.MaxLocks), and says what raises it: ErrTooManyLocks.
//
// Of advisory locks, PostgreSQL's documentation tells in 13.3.5 and 9.27.10.
package pg
