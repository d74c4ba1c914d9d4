// Package model is the protocol of package lock as a small state machine, and goes through all
// that can happen in it: each order of the steps of up to three processes, with a crash at any
// step, a process that is stopped at any step, hands that remove or replace the files at any
// moment, and programs that know only a part of the protocol.
//
// A reader lays steps.go beside lock/acquire.go: a place of the model has the name of the hook
// in the code (lock/step.go) at which the process stands, and each step is one act, at most
// one system call that others can notice. What the steps do is in queue.go, create.go,
// reclaim.go and release.go, in the order of an acquisition.
//
// In no state may there be two holders, nor a writer beside a reader. No participant removes
// the file of somebody alive. From each state one can be reached in which everybody alive has
// had the lock, though others are stopped who do not have it, and after the end the next one
// can have it. Who waits at the turnstile is passed by nobody who comes later. The fence grows.
// Guards says what each part of the protocol is for: without it there is a counterexample,
// which is kept in testdata. Open has what no part of it prevents.
//
// Some cases are with the turnstile. The others let the sibling be had in any order, which is
// more than there can be with it. In line at the turnstile the kernel serves those who wait in
// their order, and lets in before them whoever comes while it wakes the first.
//
// Each of the two rooms has a half of it (halves.go): lockfile without any queue, so that everybody
// may come at any time, and queue without any lock file, of which it is told anything. The steps are
// the same, and what the joint model comes to each half comes to, too (TestHalves_Cover); so it can be
// believed with a process, or a crash, more. TestHalves has each guard found missing in the half that it is of.
// What a half cannot show alone is excused: two holders, when a hand removes the one file that it has.
// In the results its cases begin with its name. The fence, who has died, and the order in which a
// release drops both files' locks need both halves, and are the joint model's alone.
//
// What the model leaves out: time (who waits long enough is simply one who has not gone on),
// filesystems that are not trusted, more than one goroutine of a process (so nobody adopts a
// wait that was left behind), AwaitFree, Windows.
package model
