package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// predecessor acquires the lock, and returns who had it before.
func predecessor(t *testing.T, f lock.File) *lock.Predecessor {
	t.Helper()
	held := tryHoldSoon(t, f)
	defer letGo(t, held)
	return must(held.Predecessor())(t)
}

// wantPredecessor checks who had the lock before; at a step, if step is not empty. It is
// the same for whoever looks at the free lock afterwards, and then it is us.
func wantPredecessor(t *testing.T, f lock.File, pid int, how lock.End, evidence evidence.Evidence, note string) *lock.Predecessor {
	t.Helper()
	p := predecessor(t, f)
	if p == nil {
		t.Fatalf("nobody; want pid %d, %s", pid, how)
	}
	if p.Info.PID != pid || p.How != how || p.Evidence != evidence || p.Note != note || p.Note == "" != p.NotedAt.IsZero() {
		t.Errorf("%+v; want pid %d, %s, by %q, at %q", p, pid, how, evidence, note)
	}
	that(t, how == lock.EndReleased || p.Ended.IsZero(), "ended %s", p.Ended)
	s, err := f.Inspect(t.Context())
	if err != nil || s.Last == nil || s.Last.Info.PID != os.Getpid() || s.Last.How != lock.EndReleased || time.Since(s.Last.Ended) > time.Minute {
		t.Errorf("free: %+v, %v; want that we released", s.Last, err)
	}
	return p
}

// TestPredecessor: whoever comes next knows who had the lock, how that ended, and at what.
// The holders are processes of their own, and those who die are killed.
func TestPredecessor(t *testing.T) { // guards: S16
	hold := func(t *testing.T, f lock.File, orders ...string) *child {
		t.Helper()
		p := start(t, "member", f.Path)
		p.Do("try", "held")
		for _, o := range orders {
			verb, _, _ := strings.Cut(o, " ")
			p.Do(o, map[string]string{"note": "noted", "release": "released"}[verb])
		}
		return p
	}
	free, dead := evidence.Evidence(""), evidence.KernelLockFree
	if fsys, err := platform.FilesystemOf(t.TempDir()); err != nil || !fsys.Trusted {
		dead = evidence.ProcessGone
	}
	for name, test := range map[string]func(t *testing.T, f lock.File){
		"nobody": func(t *testing.T, f lock.File) {
			if p := predecessor(t, f); p != nil {
				t.Errorf("%+v", p)
			}
		},
		"released": func(t *testing.T, f lock.File) {
			p := hold(t, f, "release") // which has nothing to tell
			if info, err := os.Stat(f.Path + ".flock"); err != nil || info.Mode()&os.ModeSticky == 0 {
				wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndReleased, free, "") // but whose the sibling is
				return
			}
			if p := predecessor(t, f); p != nil {
				t.Errorf("%+v; want nobody", p)
			}
			hold(t, f, "release") // after one that has looked back
			wantPredecessor(t, f, os.Getpid(), lock.EndReleased, free, "")
		},
		"released, with a note": func(t *testing.T, f lock.File) {
			p := hold(t, f, "note step 1", "note step 2", "release")
			got := wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndReleased, free, "step 2")
			if got.Info.Cmd != "member" || time.Since(got.Ended) > time.Minute || got.Ended.Before(got.Info.CreatedAt) {
				t.Errorf("%+v", got)
			}
			wantPredecessor(t, f, os.Getpid(), lock.EndReleased, free, "") // the note was not ours
		},
		"killed": func(t *testing.T, f lock.File) {
			hold(t, f, "note earlier", "release")
			p := hold(t, f)
			p.Kill()
			got := wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndDied, dead, "")
			that(t, got.Info.Cmd == "member" && got.Info.Nonce != "", "%+v", got)
		},
		"killed, with a note": func(t *testing.T, f lock.File) {
			p := hold(t, f, "note step 1", "note step 2\t\x1b[31m")
			p.Kill()
			wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndDied, dead, "step 2\t\x1b[31m")
		},
		"killed twice": func(t *testing.T, f lock.File) {
			hold(t, f, "note first").Kill()
			p := start(t, "member", f.Path)
			p.Do("acquire", "held")
			p.Kill()
			wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndDied, dead, "")
		},
		"of another program": func(t *testing.T, f lock.File) {
			hold(t, f, "note earlier", "release")
			putDeadClaim(t, f.Path)
			got := wantPredecessor(t, f, getClaimPID(t, deadClaim), lock.EndDied, evidence.ProcessGone, "")
			that(t, !got.Info.CreatedAt.IsZero(), "%+v", got)
		},
		"taken for dead": func(t *testing.T, f lock.File) {
			putClaim(t, f.Path, evidence.Claim{PID: 7, CreatedAt: time.Now().Add(-time.Hour), Hostname: "elsewhere", Cmd: "far"})
			f.StaleAfter = time.Minute
			wantPredecessor(t, f, 7, lock.EndPresumed, evidence.Aged, "")
		},
		"vanished": func(t *testing.T, f lock.File) {
			hold(t, f, "release")
			p := hold(t, f, "note step 3")
			check(t, os.Remove(f.Path))
			p.Do("release", "lost")
			s, err := f.Inspect(t.Context())
			if err != nil || s.Last == nil || s.Last.How != lock.EndUnknown || s.Last.Note != "step 3" {
				t.Errorf("%+v, %v", s.Last, err)
			}
			wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndUnknown, free, "step 3")
			wantPredecessor(t, f, os.Getpid(), lock.EndReleased, free, "") // that is over
		},
		"broken": func(t *testing.T, f lock.File) {
			p := hold(t, f, "note step 3")
			p.Kill()
			eventually(t, "it is dead", func() bool { s, err := f.Break(t.Context()); return err == nil && s.State == evidence.Dead })
			wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndDied, dead, "step 3")
		},
		"died, and a plain holder since": func(t *testing.T, f lock.File) {
			hold(t, f, "note step 3").Kill()
			eventually(t, "it is dead", func() bool { s, err := f.Break(t.Context()); return err == nil && s.State == evidence.Dead })
			p := hold(t, f, "release") // the death is over
			wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndReleased, free, "")
		},
		"a child has noted": func(t *testing.T, f lock.File) {
			held := tryHold(t, f)
			heldIn(t, held.Environ(nil))
			check(t, lock.NoteAbove("", "a child's"))
			letGo(t, held)
			wantPredecessor(t, f, os.Getpid(), lock.EndReleased, free, "a child's")
		},
		"a reader in between": func(t *testing.T, f lock.File) {
			p := hold(t, f, "note step 3")
			p.Kill()
			reader := must(sharing(f).Acquire(t.Context()))(t)
			if got, err := reader.Predecessor(); err != nil || got == nil || got.Note != "step 3" {
				t.Errorf("%+v, %v", got, err)
			}
			letGo(t, reader)
			if reader.Info().Mode == "" {
				t.Skip("needs shared locks, to have a reader in between")
			}
			wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndDied, dead, "step 3")
		},
		"whoever gave up in between": func(t *testing.T, f lock.File) {
			p := hold(t, f, "note step 3")
			p.Kill()
			ctx, cancel := context.WithCancel(t.Context())
			_, err := f.Park(func(step string) {
				if step == lock.StepClaimed {
					cancel()
				}
			}).Acquire(ctx)
			wantErr(t, err, context.Canceled)
			other := tryHold(t, lock.File{Path: f.Path + "z"})
			that(t, errOf(lock.TryAcquireAll(t.Context(), f, lock.File{Path: other.Path()})) != nil, "two have it")
			letGo(t, other)
			wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndDied, dead, "step 3")
		},
		"died between dead and living": func(t *testing.T, f lock.File) {
			for _, step := range []string{lock.StepDeadTold, lock.StepReread, lock.StepDeadRemoved} {
				p := hold(t, f, "note step 3")
				p.Kill()
				reclaimer := start(t, "member", f.Path)
				reclaimer.Order("park " + step)
				reclaimer.Do("acquire", "parked")
				reclaimer.Kill()
				wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndDied, dead, "step 3")
			}
		},
		"killed in its release": func(t *testing.T, f lock.File) {
			for step, how := range map[string]lock.End{
				lock.StepOwned: lock.EndDied, lock.StepRemoved: lock.EndUnknown, lock.StepEndTold: lock.EndReleased, lock.StepOwnUnlocked: lock.EndReleased,
			} {
				p := start(t, "member", f.Path)
				p.Order("park " + step)
				p.Do("acquire", "held")
				p.Do("note step 3", "noted")
				p.Do("release", "parked")
				p.Kill()
				evidence := free
				if how == lock.EndDied {
					evidence = dead
				}
				wantPredecessor(t, f, p.Cmd.Process.Pid, how, evidence, "step 3")
			}
		},
		"sibling replaced while held": func(t *testing.T, f lock.File) {
			p := hold(t, f)
			check(t, errors.Join(os.WriteFile(f.Path+".new", nil, 0o600), os.Rename(f.Path+".new", f.Path+".flock")))
			p.Do("note step 3", "noted")
			p.Do("release", "released")
			wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndReleased, free, "step 3")
		},
		"sibling removed while held": func(t *testing.T, f lock.File) {
			p := hold(t, f, "note step 3")
			check(t, os.Remove(f.Path+".flock"))
			p.Do("release", "released")
			if got := predecessor(t, f); got != nil {
				t.Errorf("%+v", got)
			}
		},
		"a fence": func(t *testing.T, f lock.File) {
			held := tryHold(t, f)
			fence := must(held.Fence())(t)
			check(t, held.Note("noted"))
			letGo(t, held)
			held = tryHold(t, f)
			next, err := held.Fence()
			that(t, err == nil && next > fence, "after %d came %d, %v", fence, next, err)
			if p, err := held.Predecessor(); err != nil || p == nil || p.Note != "noted" {
				t.Errorf("%+v, %v", p, err)
			}
			check(t, held.Note("mine"))
			letGo(t, held)
			if last := fenceOf(t, f); last <= next {
				t.Errorf("after %d came %d", next, last)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, lock.File{Path: filepath.Join(t.TempDir(), ".lock")}) })
	}
}

// TestPredecessor_Once: it is of before, whatever happens while the lock is held, and is
// told later only to whom it was told before.
func TestPredecessor_Once(t *testing.T) { // guards: S16
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	predecessor(t, f) // who looks back leaves word
	for name, before := range map[string]func(held *lock.FileHold) error{
		"asked at once": func(held *lock.FileHold) error { return second(held.Predecessor()) },
		"noted before": func(held *lock.FileHold) error {
			return errors.Join(held.Note("mine"), second(held.Predecessor()))
		},
		"a child noted before": func(held *lock.FileHold) error {
			heldIn(t, held.Environ(nil))
			return errors.Join(lock.NoteAbove("", "a child's"), second(held.Predecessor()))
		},
	} {
		held := tryHold(t, f)
		check(t, before(held))
		letGo(t, held)
		if p, err := held.Predecessor(); err != nil || p == nil || p.Info.Nonce == held.Info().Nonce {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	held := tryHold(t, f)
	letGo(t, held)
	if p, err := held.Predecessor(); err == nil || p != nil || !strings.Contains(err.Error(), "was released") {
		t.Errorf("after Release: %+v, %v; want an error that says so", p, err)
	}
	robbed := tryHold(t, f)
	check(t, os.Remove(f.Path))
	if p, err := robbed.Predecessor(); !errors.Is(err, lock.ErrLost) || p != nil {
		t.Errorf("robbed: %+v, %v; want ErrLost", p, err)
	}
	wantErr(t, robbed.Release(), lock.ErrLost)
}

// TestPredecessor_Fallback: without kernel locks there may be no sibling to remember. Who
// died is known from the claim that was taken over; once somebody notes, the rest as well.
func TestPredecessor_Fallback(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}.WithoutKernelLock()
	dead := func(note string) *child {
		p := start(t, "member", f.Path)
		p.Order("fallback")
		p.Do("try", "held")
		if note != "" {
			p.Do("note "+note, "noted")
		}
		p.Kill()
		return p
	}
	p := dead("")
	isAbsent(t, f.Path+".flock")
	held := tryHoldSoon(t, f)
	got, err := held.Predecessor()
	that(t, err == nil && got != nil && got.Info.PID == p.Cmd.Process.Pid && got.How == lock.EndDied, "%+v, %v", got, err)
	letGo(t, held)
	isAbsent(t, f.Path+".flock")
	p = dead("step 3")
	wantPredecessor(t, f, p.Cmd.Process.Pid, lock.EndDied, evidence.ProcessGone, "step 3")
}

// TestPredecessor_Long: a claim of any size is remembered, cut if need be.
func TestPredecessor_Long(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), Cmd: strings.Repeat("größe\x01<", 900)}
	predecessor(t, f) // who looks back leaves word
	p := wantPredecessor(t, f, os.Getpid(), lock.EndReleased, "", "")
	cut, is := strings.CutSuffix(p.Info.Cmd, "…")
	that(t, is && len(cut) >= 100 && strings.HasPrefix(f.Cmd, cut) && p.Info.Nonce != "", "%+v", p)
	f.Cmd = ""
	for _, c := range []evidence.Claim{
		{PID: 1 << 22, Cmd: strings.Repeat("\x01", 8000)},
		{PID: 1 << 22, Cmd: "x", Hostname: strings.Repeat("h", 20000)},
	} {
		c.CreatedAt = time.Now().Add(-time.Hour).UTC()
		putClaim(t, f.Path, c)
		f.StaleAfter = time.Minute
		if p := predecessor(t, f); p == nil || p.Info.PID != c.PID || !p.Info.CreatedAt.Equal(c.CreatedAt) || len(p.Info.Cmd)+len(p.Info.Hostname) > 2000 {
			t.Errorf("%+v", p)
		}
	}
}

// TestPredecessor_OldSibling: what an earlier holdfast left in the sibling is read as such,
// and its fence kept.
func TestPredecessor_OldSibling(t *testing.T) { // guards: S16
	for name, old := range map[string]string{
		"empty":           "",
		"fence":           "\x00\x00" + fmt.Sprintf("%020d\n", 42),
		"fence and bytes": "\x00\x00" + fmt.Sprintf("%020d\n", 42) + "0123456789",
		"power lost":      strings.Repeat("\x00", 100),
	} {
		t.Run(name, func(t *testing.T) {
			f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
			putSibling(t, f.Path, old)
			if p := predecessor(t, f); p != nil {
				t.Errorf("%+v", p)
			}
			wantPredecessor(t, f, os.Getpid(), lock.EndReleased, "", "")
			if got := string(getFile(t, f.Path+".flock")); len(old) < 64 && !strings.HasPrefix(got, old) {
				t.Errorf("it is now %q", got[:64])
			}
		})
	}
}

// TestPredecessor_SparesData: a file named like a sibling may be somebody's.
func TestPredecessor_SparesData(t *testing.T) { // guards: S16
	for name, content := range map[string]string{
		"text":  strings.Repeat("not a sibling at all\n", 150),
		"large": strings.Repeat("\x00", siblingSize) + "\n",
	} {
		f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
		putFile(t, f.Path+".flock", []byte(content), time.Time{})
		putDeadClaim(t, f.Path)
		held := tryHold(t, f)
		that(t, held.Note("x") != nil, "%s: noted", name)
		if p, err := held.Predecessor(); err != nil || p == nil || p.How != lock.EndDied {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		letGo(t, held)
		equal(t, string(getFile(t, f.Path+".flock")), content, name, "the file has now")
	}
}

func getClaimPID(t *testing.T, claim string) int {
	t.Helper()
	var c evidence.Claim
	check(t, json.Unmarshal([]byte(claim), &c))
	return c.PID
}
