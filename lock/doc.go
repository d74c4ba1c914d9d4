// Package lock takes locks between processes, by files, and knows whether a
// holder still lives because the kernel says so.
//
//	held, err := lock.File{Path: "data/.lock", Cmd: "push"}.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer held.Release()
//
// A lock is a file, the lock file, at File.Path. It exists while someone holds the lock,
// or died holding it; it says who, as one JSON object, the claim (see LockInfo). Whoever
// holds the lock has the kernel's lock on that very file, its own lock, which the kernel
// drops when they die, however they die: so the file answers for itself. A second file, the
// sibling at Path+".flock", is the queue of those who want the lock.
//
// # Protocol
//
// To acquire:
//
//  1. take the kernel lock on the sibling; if it is busy, a live process is ahead;
//  2. create the lock file, O_EXCL, and take its own lock; look whether it is at its path,
//     or begin again; write the claim. The file is marked from the act that creates it (the
//     sticky bit): whoever makes a marked file locks it, so if its lock is free, and no
//     whole claim is in it, its maker died;
//  3. if a lock file is there already, take its own lock. If that is busy, its holder lives,
//     or a child of theirs has it. Had, look whether the path still leads to this file, and
//     judge the claim by the ladder of evidence. If its holder is dead, reclaim it: write a
//     claim of one's own to Path+".reclaim", the marker, O_EXCL; read the dead claim again,
//     and if it is still the same, and at the path, remove it; remove the marker; go on at 2.
//
// To release: look whether the lock file is one's own, remove it, drop both kernel locks,
// close both files.
//
// So whoever joins, removes or replaces a lock file has the kernel lock of that very file,
// and looks, having it, whether the path leads to it: between participants nobody's file is
// ever taken away, whatever becomes of the sibling. Where a file can't be removed, a release
// has its claim say that it was released.
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
// readers behind it (on Linux). The first reader creates the lock file, the last one
// removes it.
//
// A context from FileHold.Context carries the hold, so that acquiring the same lock
// under it is ErrReentrant and no deadlock. Do and TryDo see to the release;
// AcquireAll takes several locks in an order that can't deadlock; Update changes a
// file under its own lock, durably.
//
// # Without a trustworthy kernel lock
//
// On systems or filesystems without kernel locks (fallback mode), and on
// filesystems whose locks are another kernel's (NFS, CIFS, FUSE, virtiofs, 9p),
// the lock file decides together with pid, start time, boot, host and at last
// age; holders renew their claims, and learn through FileHold.Lost if they were
// taken for dead. What they made so is judged so by all, also by who sees the same folder
// as a local filesystem. That is weaker; File.RequireKernelLock refuses it.
//
// On Windows, where a file that is locked can't be read, the kernel lock on the sibling
// stands for that on the lock file. The code path that macOS, the BSDs and Windows share is
// tested on Linux; what is each system's own is not tested.
//
// # What it does not do
//
// The locks are advisory: they bind those who ask. A program that calls exec on
// itself keeps its pid but loses its kernel locks. An exclusive lock then stays locked
// until it ends, for those in its pid namespace; a shared one is free. The files are
// close-on-exec, so a child process does not inherit the lock; but between fork and exec,
// as long as that lasts, it has it: a holder that is killed just then leaves its lock to
// that child.
package lock
