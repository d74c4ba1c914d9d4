package lock_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// needsTidying skips where siblings stay.
func needsTidying(t *testing.T) {
	t.Helper()
	fsys := must(platform.FilesystemOf(t.TempDir()))(t)
	if !platform.OwnLocks || !fsys.Trusted {
		t.Skip("needs a filesystem whose kernel locks are trusted, to tidy up")
	}
}

// TestTidy_Release: what stays of a lock that is tidied up.
func TestTidy_Release(t *testing.T) { // guards: S18
	needsTidying(t)
	const nothing, sibling = "", ".lock.flock"
	tests := []struct {
		name string
		use  func(t *testing.T, f lock.File)
		left string
	}{
		{"once", func(t *testing.T, f lock.File) { letGo(t, tryHold(t, f)) }, nothing},
		{"not asked for", func(t *testing.T, f lock.File) {
			f.Tidy = false
			letGo(t, tryHold(t, f))
		}, sibling},
		{"with a fence", func(t *testing.T, f lock.File) {
			held := tryHold(t, f)
			check(t, errOf(held.Fence()))
			letGo(t, held)
		}, sibling},
		{"with data in the sibling", func(t *testing.T, f lock.File) {
			check(t, os.WriteFile(f.Path+".flock", []byte("ab"), 0o600))
			letGo(t, tryHold(t, f))
		}, sibling},
		{"a reader", func(t *testing.T, f lock.File) {
			held := must(sharing(f).TryAcquire(t.Context()))(t)
			letGo(t, held)
		}, nothing},
		{"two readers", func(t *testing.T, f lock.File) {
			first := must(sharing(f).TryAcquire(t.Context()))(t)
			second := must(sharing(f).TryAcquire(t.Context()))(t)
			letGo(t, first)
			equal(t, names(t, filepath.Dir(f.Path)), ".lock .lock.flock", "as long as one reads")
			letGo(t, second)
		}, nothing},
		{"somebody tried", func(t *testing.T, f lock.File) {
			held := tryHold(t, f)
			notHad(t, f)
			letGo(t, held)
		}, nothing},
		{"somebody gave up waiting", func(t *testing.T, f lock.File) {
			held := tryHold(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			came := beginAcquire(t, ctx, f)
			parkedIs(t, 1)
			cancel()
			if o := get(t, came); o.err == nil {
				t.Fatal("a second holder got in")
			}
			letGo(t, held)
			parkedIs(t, 0)
		}, nothing},
		{"its file was removed by hand", func(t *testing.T, f lock.File) {
			held := tryHold(t, f)
			check(t, os.Remove(f.Path))
			wantErr(t, held.Release(), lock.ErrLost, "release")
		}, nothing},
		{"another program has it by then", func(t *testing.T, f lock.File) {
			letGo(t, tryHold(t, f.Park(func(step string) {
				if step == lock.StepOwnUnlocked {
					putDeadClaim(t, f.Path)
				}
			})))
		}, ".lock " + sibling},
		{"the sibling is another by then", func(t *testing.T, f lock.File) {
			letGo(t, tryHold(t, f.Park(func(step string) {
				if step == lock.StepOwnUnlocked {
					check(t, os.WriteFile(f.Path+".new", nil, 0o600))
					check(t, os.Rename(f.Path+".new", f.Path+".flock"))
				}
			})))
		}, sibling},
		{"somebody else has it open", func(t *testing.T, f lock.File) {
			needsLeases(t)
			held := tryHold(t, f)
			open, err := os.Open(f.Path + ".flock") // as flock(1) has, whom no path tells anything
			check(t, err)
			t.Cleanup(func() { open.Close() })
			letGo(t, held)
		}, sibling},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			test.use(t, lock.File{Path: filepath.Join(dir, ".lock"), Tidy: true, StaleAfter: -1})
			eventually(t, "what is to be left: "+test.left, func() bool { return names(t, dir) == test.left })
		})
	}
}

// TestTidy_WaitersBeginAgain: those who wait for a sibling that is tidied away meanwhile end
// up with the new one, where newcomers find them.
func TestTidy_WaitersBeginAgain(t *testing.T) { // guards: B5, S18
	needsTidying(t)
	for _, how := range []string{"acquire", "shared"} {
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), ".lock")
			tidier := must(platform.Open(path+".flock", os.O_RDWR|os.O_CREATE))(t)
			check(t, tidier.TryLock(platform.Exclusive))
			waiter := start(t, "member", path)
			waiter.Do(how, "waiting")
			check(t, os.Remove(path+".flock"))
			check(t, tidier.Close())
			waiter.Expect("held")
			if err := peek(path + ".flock"); err != platform.ErrBusy {
				t.Errorf("the sibling's kernel lock: %v; want it to be the waiter's", err)
			}
			waiter.Do("release", "released")
		})
	}
}

// TestTidy: of a folder goes what nobody needs, and nothing else.
func TestTidy(t *testing.T) { // guards: S18
	needsTidying(t)
	needsMarks(t)
	dir := t.TempDir()
	at := func(name string) lock.File { return lock.File{Path: filepath.Join(dir, name), StaleAfter: -1} }
	longAgo := time.Now().Add(-72 * time.Hour)

	letGo(t, tryHold(t, at("free.lock")))
	letGo(t, tryHold(t, at("aged.lock")))
	check(t, os.Chtimes(at("aged.lock").Path+".flock", longAgo, longAgo))
	held := tryHold(t, at("held.lock"))
	defer letGo(t, held)
	fenced := tryHold(t, at("fence.lock"))
	check(t, errOf(fenced.Fence()))
	letGo(t, fenced)
	check(t, os.WriteFile(at("oldfence.lock").Path+".flock", []byte("\x00\x0000001767323045678901\n"), 0o600))
	check(t, os.Chtimes(at("oldfence.lock").Path+".flock", longAgo, longAgo))
	check(t, os.WriteFile(at("number.lock").Path+".flock", []byte("\x00\x0000001767323045678901\nand data"), 0o600))
	check(t, os.Chtimes(at("number.lock").Path+".flock", longAgo, longAgo))
	check(t, os.WriteFile(at("data.lock").Path+".flock", []byte("somebody's data"), 0o600))
	check(t, os.WriteFile(at("disk").Path, make([]byte, 4096), 0o600)) // locked with "flock disk.flock"
	check(t, os.Chtimes(at("disk").Path, longAgo, longAgo))
	check(t, os.WriteFile(at("disk").Path+".flock", nil, 0o600))
	leaveDeadClaim(t, at("dead.lock").Path)
	putDeadClaim(t, at("alien.lock").Path) // and no sibling: who knows whose it is
	putClaim(t, at("far.lock").Path, evidence.Claim{PID: 1, CreatedAt: longAgo, BootID: "another", Hostname: "elsewhere"})
	check(t, makeMarked(at("far.lock").Path+".flock"))
	check(t, makeMarked(at("empty.lock").Path))
	check(t, os.Chtimes(at("empty.lock").Path, longAgo, longAgo))
	check(t, os.WriteFile(at("nuls").Path+".flock", make([]byte, 4000), 0o600))
	for _, name := range []string{"notes.reclaim.txt", "mine.reclaim"} {
		check(t, os.WriteFile(at(name).Path, nil, 0o600))
		check(t, os.Chtimes(at(name).Path, longAgo, longAgo))
	}
	check(t, os.WriteFile(filepath.Join(dir, "private"), nil, 0o600))
	check(t, os.Link(filepath.Join(dir, "private"), at("taken.lock").Path+".flock"))
	locked := must(platform.Open(at("flock.lock").Path+".flock", os.O_RDWR|os.O_CREATE))(t)
	check(t, locked.TryLock(platform.Shared))
	defer locked.Close()
	reclaiming := at("reclaim.lock")
	leaveDeadClaim(t, reclaiming.Path)
	killed := start(t, "parker", reclaiming.Path)
	killed.Do(lock.StepDeadRemoved, "parked")
	killed.Kill()
	check(t, os.WriteFile(filepath.Join(dir, ".flock"), nil, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "yarn.lock"), []byte("# yarn"), 0o600))

	tidy := func(how lock.Tidying) map[string]string {
		t.Helper()
		got := map[string]string{}
		for file, err := range lock.Tidy(t.Context(), dir, how) {
			check(t, err)
			verb := map[bool]string{true: "goes: ", false: "stays: "}[file.Needless]
			that(t, file.Removed != how.DryRun || !file.Needless, "%+v", file)
			if _, err := os.Lstat(file.Path); (err == nil) == file.Removed {
				t.Errorf("%+v, and it is there: %v", file, err == nil)
			}
			got[filepath.Base(file.Path)] = verb + file.Why
		}
		return got
	}
	wanted := map[string]string{
		"free.lock.flock":      "goes: nobody has the lock, or waits for it",
		"aged.lock.flock":      "goes: nobody has the lock, or waits for it",
		"held.lock":            "stays: the lock is held: kernel lock held",
		"held.lock.flock":      "stays: the lock is held: kernel lock held",
		"fence.lock.flock":     "stays: it has a fence, which was given not long ago",
		"oldfence.lock.flock":  "goes: nobody has the lock, or waits for it",
		"number.lock.flock":    "stays: nothing shows that it is holdfast's",
		"data.lock.flock":      "stays: nothing shows that it is holdfast's",
		"disk":                 "stays: nothing shows that it is holdfast's",
		"empty.lock":           "stays: nothing shows that it is holdfast's", // empty and sticky
		"nuls.flock":           "stays: nothing shows that it is holdfast's",
		"notes.reclaim.txt":    "stays: nothing shows that it is holdfast's", // empty
		"mine.reclaim":         "stays: nothing shows that it is holdfast's",
		"taken.lock.flock":     "stays: nothing shows that it is holdfast's", // somebody's, linked here
		"disk.flock":           "stays: nothing shows that it is holdfast's",
		"dead.lock":            "goes: its holder is dead: kernel lock free",
		"dead.lock.flock":      "goes: nobody has the lock, or waits for it",
		"far.lock":             "stays: the lock is unknown: claim from another host",
		"far.lock.flock":       "stays: the lock is unknown: claim from another host",
		"flock.lock.flock":     "stays: somebody has its kernel lock",
		"reclaim.lock.reclaim": "goes: a process that died has left it",
		"reclaim.lock.flock":   "goes: nobody has the lock, or waits for it",
	}
	compare := func(got, want map[string]string) {
		t.Helper()
		for name := range want {
			equal(t, got[name], want[name], name)
		}
		for name := range got {
			if want[name] == "" {
				t.Errorf("%s %s", name, got[name])
			}
		}
	}
	before := treeState(t, dir)
	compare(tidy(lock.Tidying{DryRun: true}), wanted)
	sameTree(t, before, treeState(t, dir))

	young := map[string]string{}
	for name, what := range wanted {
		if strings.HasPrefix(what, "goes") && name != "aged.lock.flock" && name != "oldfence.lock.flock" {
			what = "stays: it was written not long ago"
		}
		young[name] = what
	}
	compare(tidy(lock.Tidying{OlderThan: 48 * time.Hour, DryRun: true}), young)

	compare(tidy(lock.Tidying{}), wanted)
	for name, what := range wanted {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) == strings.HasPrefix(what, "goes") {
			t.Errorf("%s %s, and it is there: %v", name, what, err == nil)
		}
	}
	for _, name := range []string{"yarn.lock", "alien.lock", ".flock"} {
		noErr(t, errOf(os.Lstat(filepath.Join(dir, name))))
	}
	if got := tidy(lock.Tidying{OlderThan: time.Nanosecond}); got["fence.lock.flock"] != "goes: nobody has the lock, or waits for it" {
		t.Errorf("with a span: %q", got["fence.lock.flock"])
	}
}

// TestTidy_Predecessor: who only clears a dead holder's lock away leaves word of it to the
// next one, where the sibling stays.
func TestTidy_Predecessor(t *testing.T) {
	needsTidying(t)
	needsMarks(t)
	f := lock.File{Path: filepath.Join(t.TempDir(), "x.lock")}
	dead := start(t, "member", f.Path)
	dead.Do("try", "held")
	dead.Do("note step 2", "noted")
	check(t, os.Chtimes(f.Path, time.Unix(0, 0), time.Unix(0, 0)))
	dead.Kill()
	for _, err := range lock.Tidy(t.Context(), filepath.Dir(f.Path), lock.Tidying{OlderThan: time.Hour}) {
		check(t, err)
	}
	if _, err := os.Lstat(f.Path); err == nil {
		t.Fatal("the dead holder's lock file is there")
	}
	wantPredecessor(t, f, dead.Cmd.Process.Pid, lock.EndDied, evidence.KernelLockFree, "step 2")
}

// TestTidy_KeepsDeath: of a lock that is tidied up, the next holder learns how the last one
// died, though others have cleared the lock file away, and nothing is left after that.
func TestTidy_KeepsDeath(t *testing.T) {
	needsTidying(t)
	needsMarks(t)
	for name, clear := range map[string]func(t *testing.T, f lock.File){
		"break": func(t *testing.T, f lock.File) {
			equal(t, must(f.Break(t.Context()))(t).State, evidence.Dead)
		},
		"a reader": func(t *testing.T, f lock.File) {
			held := must(sharing(f).TryAcquire(t.Context()))(t)
			check(t, held.Release())
		},
		"an Acquire cancelled as it succeeds": func(t *testing.T, f lock.File) {
			ctx, cancel := context.WithCancel(t.Context())
			f.Observe = func(lock.Event) { cancel() }
			if held, err := f.Acquire(ctx); err == nil {
				letGo(t, held)
				t.Fatal("acquired")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := lock.File{Path: filepath.Join(t.TempDir(), "x.lock"), Tidy: true}
			dead := start(t, "member", f.Path)
			dead.Do("try", "held")
			dead.Do("note step 2", "noted")
			dead.Kill()
			clear(t, f)
			p := predecessor(t, f)
			that(t, p != nil && p.Info.PID == dead.Cmd.Process.Pid && p.How == lock.EndDied && p.Note == "step 2", "%+v", p)
			equal(t, names(t, filepath.Dir(f.Path)), "")
		})
	}
}

// makeMarked makes an empty file that bears the mark of a lock file, and of a sibling.
func makeMarked(path string) error {
	f, err := platform.Create(path, true)
	if err != nil {
		return err
	}
	return f.Close()
}
