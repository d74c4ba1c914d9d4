// Package lock takes locks between processes, by files. The kernel says whether a holder still
// lives.
//
//	deploy := lock.File{Path: "deploy.lock", Cmd: "deploy"}
//	err := deploy.Do(ctx, func(ctx context.Context, held *lock.FileHold) error {
//		return work(ctx) // ctx ends if the lock is lost
//	})
//
// The lock file, at File.Path, exists while a process holds the lock, or died holding it. It
// names the holder: the claim in it is one JSON object (see evidence.Claim). The holder has
// the kernel's lock on that very file. The kernel drops it when the holder dies, however it
// dies. A second file, the sibling at Path+".flock", is the queue.
//
// Acquire waits in that queue, and can be cancelled at any time. TryAcquire does not wait.
// Do and TryDo see to the release. With the shared forms, readers have the lock together.
// AcquireAll takes several locks in an order that can't deadlock. Update changes a file
// under its own lock, durably. Locker is the interface of engines: Dir, a folder of lock
// files, and package pg.
//
// The locks are advisory: they bind only programs that ask. On some systems the kernel's word
// is no proof: on NFS, FUSE and the like, and where there are no kernel locks. There pid, host
// and age decide, and holders renew their claims. With File.RequireKernelLock, acquiring
// refuses instead.
//
// ARCHITECTURE.md in the repository describes the protocol, FORMATS.md the files, and
// GUARANTEES.md what can be relied on, and what can't.
package lock
