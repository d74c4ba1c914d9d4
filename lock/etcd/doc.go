// Package etcd is holdfast's engine on etcd (3.4 or later): the same locks, for programs that
// have outgrown one machine, where there is a cluster anyway.
//
//	locks, err := etcd.Open(ctx, etcd.Options{Client: client})
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//	err = lock.Do(ctx, locks, lock.Key{Space: "agent", Name: id}, func(ctx context.Context, held lock.Hold) error { ... })
//
// A lock is a queue of keys, in the order in which they were created: the first has it.
// Each waiter watches only the key before its own, so a release wakes one. Readers wait for
// the writers before them; writers, for all. All keys are below one prefix (Options.Prefix).
// A user of the cluster needs the right to read and write only that:
//
//	etcdctl role grant-permission app readwrite --prefix=true holdfast/
//	etcdctl get --prefix holdfast/locks/agent/42/
//
// # Loss
//
// A Locker has one lease (Options.Lease) for all that it holds, and keeps it alive. If the
// cluster can't be heard for nine tenths of the lease, Hold.Lost of all its holds is closed
// and their contexts end, with lock.ErrLost: before the cluster gives the locks to others.
// That is counted from the sending of the last sign of life that was answered, by a clock
// that goes on while the machine sleeps (Linux; elsewhere by the wall clock too). The same
// happens when the lease was revoked, and to a single lock when its key was deleted by hand,
// as soon as the cluster says so.
//
// A process that dies, or is stopped for longer than the lease, loses its locks. One that
// goes on after it was stopped knows of its loss an instant later, and after the sleep of
// its machine within a twentieth of the lease: until then it may work beside its successor.
// So may one in a virtual machine that was itself stopped: its clocks do not show that. The
// fence is for these cases.
//
// A change of leader, a member that is cut off, a watch that ends, a revision that was
// compacted and a token that has expired are survived, if the cluster answers within the
// lease. An answer that does not come leaves nothing undecided: see the protocol in
// acquire.go. A cancelled wait leaves no key.
//
// # Fence
//
// Hold.Fence is raised in a key of the lock's own, below fences/, by the rule that all engines
// have (engine.NextFence). To refuse a late writer, keep it where you write, and refuse smaller
// ones. The keys stay, one for each lock whose holder has asked; PurgeFences
// removes those that are old. What you write to the same cluster needs no number: the
// transaction itself can ask whether the lock is ours.
//
//	client.Txn(ctx).If(held.IsOwner()).Then(...)
//
// A cluster that is restored from a snapshot knows none of the locks since, nor of the fences:
// these go on from the time of day.
package etcd
