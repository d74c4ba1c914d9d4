package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// TestCrash kills a real process at each step of the protocol. While it is
// parked there nobody else gets in; once it is dead the next one does, without a
// hand's help, without waiting for any age, and leaves no litter.
func TestCrash(t *testing.T) { // guards: S10, E2, E3
	type crash struct {
		name, step string
		reclaiming bool
	}
	var crashes []crash
	for _, s := range lock.AcquireSteps {
		crashes = append(crashes, crash{"acquire", s, false})
	}
	for _, s := range lock.ReclaimSteps {
		crashes = append(crashes, crash{"reclaim", s, true})
	}
	for _, s := range slices.Concat(lock.ReleaseSteps, lock.TidySteps) {
		crashes = append(crashes, crash{"release", s, false})
	}
	for _, c := range crashes {
		t.Run(c.name+"/"+c.step, func(t *testing.T) {
			if lock.Unclaimed(c.step) {
				needsMarks(t)
			}
			dir := t.TempDir()
			path := filepath.Join(dir, ".lock")
			if c.reclaiming {
				leaveDeadClaim(t, path)
			}
			parked := start(t, "parker", path)
			parked.Do(c.step, "parked")
			if last := lock.ReleaseSteps[len(lock.ReleaseSteps)-1]; c.step != last && c.step != lock.StepSiblingRemoved {
				wantLocked(t, path)
			}
			parked.Cmd.Process.Kill()
			takeOver(t, path)
			equal(t, names(t, dir), ".lock.flock", "left behind")
		})
	}
}

// TestCrashTwice kills one reclaimer on the debris of another.
func TestCrashTwice(t *testing.T) { // guards: S10
	lastSteps := lock.ReclaimSteps[slices.Index(lock.ReclaimSteps, lock.StepDeadRemoved):]
	for _, first := range lock.ReclaimSteps {
		for _, second := range lock.ReclaimSteps {
			if !testkit.Sample(3) {
				continue
			}
			path := filepath.Join(t.TempDir(), ".lock")
			leaveDeadClaim(t, path)
			for _, step := range []string{first, second} {
				parked := start(t, "parker", path)
				parked.Order(step)
				// Once the dead claim is gone there is nothing to reclaim.
				if said := parked.Answer(); said != "parked" && !(said == "never parked: <nil>" && slices.Contains(lastSteps, first)) {
					t.Fatalf("%s, then %s: the second %s", first, second, said)
				}
				parked.Kill()
			}
			takeOver(t, path)
			equal(t, names(t, filepath.Dir(path)), ".lock.flock", first, "then", second, "left behind")
		}
	}
}

// leaveDeadClaim has a process die while it holds the lock.
func leaveDeadClaim(t *testing.T, path string) {
	t.Helper()
	dead := start(t, "parker", path)
	dead.Do(lock.StepClaimed, "parked")
	dead.Kill()
}

// takeOver acquires the lock of a process that was just killed, though it may
// not yet be gone, and releases it.
func takeOver(t *testing.T, path string) {
	t.Helper()
	takeOverBy(t, lock.File{Path: path, StaleAfter: -1}) // age must not be what lets us in
}

func takeOverBy(t *testing.T, f lock.File) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	held, err := f.Acquire(ctx)
	check(t, err, "the next one")
	if got := held.Info().PID; got != os.Getpid() {
		t.Errorf("claim is of pid %d, want ours, %d", got, os.Getpid())
	}
	noErr(t, held.Release())
}

// wantLocked tries for the lock, as one who would take age for a proof.
func wantLocked(t *testing.T, path string) *lock.LockedError {
	t.Helper()
	held, err := lock.File{Path: path, StaleAfter: time.Nanosecond}.TryAcquire(t.Context())
	if err == nil {
		t.Fatal("a second holder got in: ", held.Release())
	}
	var locked *lock.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v, want *LockedError", err)
	}
	return locked
}

// TestRobbed takes away one of the two files while another process holds the
// lock: nobody else gets in, and the holder learns of it when it releases, and
// removes nothing that isn't its own.
func TestRobbed(t *testing.T) { // guards: A2, B4, S5
	foreign := `{"pid":1,"created_at":"` + time.Now().UTC().Format(time.RFC3339) + `","cmd":"other program"}`
	tests := []struct {
		name     string
		rob      func(path string) error
		released string // what the holder hears
		left     string
	}{
		{"sibling removed", func(p string) error { return os.Remove(p + ".flock") },
			"released", ".lock.flock"},
		{"sibling renamed away", func(p string) error { return os.Rename(p+".flock", p+".gone") },
			"released", ".lock.flock .lock.gone"},
		{"sibling renamed over", func(p string) error {
			if err := os.WriteFile(p+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(p+".new", p+".flock")
		}, "released", ".lock.flock"},
		{"lock file removed", os.Remove,
			"error: lock: release PATH: " + lock.ErrLost.Error(), ".lock.flock"},
		{"lock file renamed away", func(p string) error { return os.Rename(p, p+".gone") },
			"error: lock: release PATH: " + lock.ErrLost.Error(), ".lock.flock .lock.gone"},
		{"lock file replaced by another program", func(p string) error {
			return errors.Join(os.Remove(p), os.WriteFile(p, []byte(foreign), 0o600))
		}, "error: lock: release PATH: " + lock.ErrLost.Error(), ".lock .lock.flock"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, ".lock")
			robbed := start(t, "holder", path)
			robbed.Do("try", "held")
			check(t, test.rob(path))
			wantLocked(t, path)
			released := test.released
			if i := len("error: lock: release "); len(released) > i {
				released = released[:i] + path + released[i+len("PATH"):]
			}
			robbed.Do("release", released)
			equal(t, names(t, dir), test.left, "left")
		})
	}
}

// TestDeadWhoseSiblingIsGone: a dead holder's lock is had even without the
// sibling that it was made under.
func TestDeadWhoseSiblingIsGone(t *testing.T) { // guards: S5
	path := filepath.Join(t.TempDir(), ".lock")
	leaveDeadClaim(t, path)
	check(t, os.Remove(path+".flock"))
	takeOver(t, path)
}

// TestSiblingReplacedInPassage: the sibling is replaced between its opening and
// the check of step 2. The lock that we end up with must be on the new one.
func TestSiblingReplacedInPassage(t *testing.T) { // guards: B5
	path := filepath.Join(t.TempDir(), ".lock")
	replaced := false
	held := must(lock.File{Path: path}.Park(func(step string) {
		if step == lock.StepSiblingLocked && !replaced {
			replaced = true
			noErr(t, errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path+".flock")))
		}
	}).TryAcquire(t.Context()))(t)
	if err := peek(path + ".flock"); err != platform.ErrBusy {
		t.Errorf("kernel lock on the sibling at the path: %v; want it to be ours", err)
	}
	noErr(t, held.Release())
}

// TestDeadClaimChangesBeforeReclaim: between the judgement and the marker, the
// dead claim gives way to that of a program that takes no kernel lock.
func TestDeadClaimChangesBeforeReclaim(t *testing.T) { // guards: S8
	path := filepath.Join(t.TempDir(), ".lock")
	putDeadClaim(t, path)
	winner := `{"pid":1,"created_at":"` + time.Now().UTC().Format(time.RFC3339) + `","cmd":"other program"}`
	held, err := lock.File{Path: path}.Park(func(step string) {
		if step == lock.StepMarkerCreated {
			noErr(t, os.WriteFile(path, []byte(winner), 0o600))
		}
	}).TryAcquire(t.Context())
	if err == nil {
		t.Fatal("two holders: ", held.Release())
	}
	if got, _ := os.ReadFile(path); string(got) != winner {
		t.Errorf("the winner's claim is now %q", got)
	}
	equal(t, names(t, filepath.Dir(path)), ".lock .lock.flock", "left")
}

// TestSiblingGoneMidway: the sibling is removed while one acquires, at each step,
// and a rival comes, who locks the new one. There are never two holders.
func TestSiblingGoneMidway(t *testing.T) {
	for _, steps := range [][]string{lock.AcquireSteps, lock.ReclaimSteps} {
		for _, at := range steps {
			dir := t.TempDir()
			path := filepath.Join(dir, ".lock")
			if len(steps) == len(lock.ReclaimSteps) {
				putDeadClaim(t, path)
			}
			var rival *lock.FileHold
			gone := false
			held, err := lock.File{Path: path}.Park(func(step string) {
				if step != at || gone {
					return
				}
				gone = true
				noErr(t, os.Remove(path+".flock"))
				rival, _ = lock.File{Path: path}.TryAcquire(t.Context())
			}).TryAcquire(t.Context())
			that(t, gone, "%s: never came there", at)
			if held == nil == (rival == nil) {
				t.Errorf("%s: holders: %v (%v), rival %v; want one", at, held != nil, err, rival != nil)
			}
			for _, h := range []*lock.FileHold{held, rival} {
				if h == nil {
					continue
				}
				noErr(t, h.Release(), at)
			}
			equal(t, names(t, dir), ".lock.flock", at, "left behind")
		}
	}
}

// TestBreakForce: whose kernel lock is held is alive, and to end them is the way; of who
// can't be judged, the very one that was seen is broken, and no other.
func TestBreakForce(t *testing.T) { // guards: E8
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	refused := func(nonce string, want evidence.Evidence) {
		t.Helper()
		before := treeState(t, filepath.Dir(f.Path))
		_, err := f.BreakForce(t.Context(), nonce)
		that(t, asLocked(t, err).Evidence == want, "break with nonce %q: %v, want %q", nonce, err, want)
		sameTree(t, before, treeState(t, filepath.Dir(f.Path)))
	}
	held := tryHold(t, f)
	refused(held.Info().Nonce, evidence.KernelLockHeld)
	refused("other", evidence.KernelLockHeld)
	letGo(t, held)

	elsewhere := evidence.Claim{PID: 1, CreatedAt: time.Now(), Nonce: "ELSEWHERE", BootID: "another", Hostname: "elsewhere"}
	putClaim(t, f.Path, elsewhere)
	equal(t, notHad(t, f).Evidence, evidence.ForeignHost, "judged by")
	refused("", evidence.OtherNonce)
	refused("other", evidence.OtherNonce)
	equal(t, must(f.BreakForce(t.Context(), elsewhere.Nonce))(t).Evidence, evidence.ForeignHost, "break with the right nonce")
	isAbsent(t, f.Path)
	equal(t, must(f.BreakForce(t.Context(), elsewhere.Nonce))(t).State, evidence.Free, "a free lock")
}
