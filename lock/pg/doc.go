// Package pg is holdfast's engine on PostgreSQL: the same locks, for those who have
// outgrown one machine, as session-level advisory locks of a database that many run
// anyway.
//
//	locks, err := pg.Open(ctx, pg.Options{Conn: "host=db dbname=app"})
//	defer locks.Close()
//	err = lock.Do(ctx, locks, lock.Key{Space: "agent", Name: id}, func(ctx context.Context) error { ... })
//
// Each hold has a connection of its own, on which nothing else is done: so it
// survives every commit of the work that it protects, and ends when the server sees
// that connection end.
//
// # Keys
//
// A lock is a number of 64 bits: the beginning of the SHA-256 of space and name. The
// table holdfast_names has the name of each number, so that two names which make one
// number are found out (ErrCollision) and not taken for contention. A space that is
// registered as numeric (Locker.Register) uses the form of two numbers of 32 bits,
// its own and the name's, with no loss: the table holdfast_spaces makes sure that no
// two spaces have one number, and that nobody uses one with names (ErrSpaceClash).
//
// The tables and the sequence are found by search_path. All who share locks must find
// the same ones: the numbers of locks are the whole database's.
//
// # Fence
//
// Hold.Fence comes of the sequence holdfast_fence, and is had together with the lock.
// To refuse a writer who comes too late, keep it where you write, and check it there:
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// in the transaction of the work itself; if no row was changed, a later holder has
// written. The sequence never goes back on one server; on a replica that is promoted
// having missed something it may.
//
// # Loss
//
// A goroutine watches the connection of each hold that lasts. If the session ends (a
// restart of the server, pg_terminate_backend, a network that is cut), Hold.Lost is
// closed and its contexts end, with ErrLost: within milliseconds where the server
// says so, and within about eleven seconds, by TCP keepalives, where nobody says
// anything. Others may have the lock from then on. The server is told to look as often,
// so that who is cut off does not keep a lock for hours.
//
// A holder that is stopped, or cut off, keeps its lock for as long as the server
// believes in its connection. With Options.Lease the server ends a session that has
// not been heard of for so long; the holder counts from before its last sign of life,
// and so knows first.
//
// # Connections
//
// Locks need a pool for themselves: with one that work uses, too, those who wait for
// locks have all connections, and those who hold them wait for one. Of its
// connections three in five are for those who come with no lock; half of the others are
// for tries, and the rest for List, and for those who hold a lock and want another
// (which their context says). Open makes a pool of 25, so 15, 5 and 5: what an
// application needs that serves with ten connections of its own. A pool must have 3.
// Raise Options.Conn's pool_max_conns with the number of locks that one process holds
// or waits for at a time, and above all if it nests them deeply: when the reserve is
// taken by holders who wait for each other's locks, a further one waits for a
// connection.
//
// A new connection is made fit for locks: time limits and defaults of its role that
// would end a wait, a hold or a transaction are set aside.
//
// # Deadlock
//
// The server finds a deadlock among sessions. As each hold has one of its own, which
// never waits itself, it does not find one that is made of nested holds: there the
// contexts' deadlines must end the wait. Use lock.AcquireKeys, or one order for all.
//
// Advisory locks do not survive a pooler that hands a session to others between
// transactions. A server process that is not the one which was there at start-up is
// refused (ErrPooler): connect to the server itself.
//
// Of advisory locks, PostgreSQL's documentation tells in 13.3.5 and 9.27.10.
package pg
