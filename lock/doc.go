// Package lock takes locks between processes, by files, and knows whether a
// holder still lives because the kernel says so.
//
//	held, err := lock.File{Path: "data/.lock", Cmd: "push"}.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer held.Release()
//
// A lock is two files. The lock file, at File.Path, exists while someone holds
// the lock, or died holding it; it says who, as one JSON object, the claim (see
// LockInfo). The sibling, at Path+".flock", stays for good; the kernel lock on it
// proves that the holder lives, and the kernel drops it when the holder dies,
// however it dies.
//
// # Protocol
//
// To acquire:
//
//  1. take the kernel lock on the sibling; if it is busy, a live process has it;
//  2. check that the sibling's path still leads to the file that was locked;
//  3. create the lock file, O_EXCL, with mode 0200; write the claim; set mode
//     0600, which says that the claim is whole; make sure once more that the
//     sibling was not replaced meanwhile, or begin again;
//  4. if a lock file is there already, judge it by the ladder of evidence. If
//     its holder is dead, reclaim it: write a claim of one's own to
//     Path+".reclaim", O_EXCL, check the sibling, read the dead claim again, and
//     if it is still the same rename one's own over it.
//
// To release: check that the lock file is one's own, remove it, drop the kernel
// lock, close the sibling.
//
// Any program that creates the lock file with O_EXCL, writes at least pid and
// created_at into it, and removes it afterwards can take part, in any language;
// only the proof of life is missing for it.
//
// # Waiting
//
// Acquire waits in the kernel's queue, and can be cancelled at any time. Within a
// process, goroutines are served in the order in which they came, and one thread
// waits for all of them. Between processes a turnstile, a byte lock on the same
// sibling, keeps newcomers behind those who wait (Linux; elsewhere the kernel's
// own order decides). TryAcquire takes no place in the queue.
//
// Readers (AcquireShared) have the lock together; a waiting writer keeps further
// readers behind it. The first reader creates the lock file, the last one removes
// it.
//
// A context from Held.Context carries the hold, so that acquiring the same lock
// under it is ErrReentrant and no deadlock. Do and TryDo see to the release;
// AcquireAll takes several locks in an order that can't deadlock; Update changes a
// file under its own lock, durably.
//
// # Without a trustworthy kernel lock
//
// On systems or filesystems without kernel locks (fallback mode), and on
// filesystems whose locks are another kernel's (NFS, CIFS, FUSE, virtiofs, 9p),
// the lock file decides together with pid, start time, boot, host and at last
// age; holders renew their claims, and learn through Held.Lost if they were
// taken for dead. That is weaker; File.RequireKernelLock refuses it.
//
// # What it does not do
//
// The locks are advisory: they bind those who ask. A program that calls exec on
// itself keeps its pid but loses its kernel lock; its lock then stays locked until
// it ends. A child process does not inherit the lock.
package lock
