package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// heldIn takes HOLDFAST_HELD from an environment, and has it be this process's.
func heldIn(t *testing.T, env []string) string {
	t.Helper()
	value, found := strings.CutPrefix(env[len(env)-1], "HOLDFAST_HELD=")
	if !found {
		t.Fatalf("%q; want HOLDFAST_HELD last", env)
	}
	t.Setenv("HOLDFAST_HELD", value)
	return value
}

// TestHeldAbove: a lock that a process above has is not waited for, by whatever name of its
// folder. A lock that it had counts for nothing.
func TestHeldAbove(t *testing.T) { // guards: S2
	dir := t.TempDir()
	f := lock.File{Path: filepath.Join(dir, "a.lock"), Cmd: "above"}
	held, other := tryHold(t, f), tryHold(t, lock.File{Path: filepath.Join(dir, "b.lock")})
	defer letGo(t, other)
	env := held.Environ(other.Environ([]string{"A=1", "HOLDFAST_HELD=somebody's", "B=2"}))
	value := heldIn(t, env)
	var above []map[string]any
	if err := json.Unmarshal([]byte(value), &above); err != nil || len(above) != 2 || above[1]["path"] != held.Path() ||
		above[1]["nonce"] != held.Info().Nonce || above[1]["pid"] != float64(os.Getpid()) || len(env) != 3 {
		t.Errorf("%q (%v)", env, err)
	}
	if again := held.Environ(env); again[len(again)-1] != env[len(env)-1] {
		t.Errorf("%q; want it named once", again)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip("needs symbolic links, to name a folder twice: ", err)
	}
	ctx := t.Context()
	for _, f := range []lock.File{f, {Path: filepath.Join(link, "a.lock")}} {
		for name, acquire := range map[string]func(context.Context) (*lock.FileHold, error){
			"Acquire": f.Acquire, "TryAcquire": f.TryAcquire, "AcquireShared": sharing(f).Acquire, "TryAcquireShared": sharing(f).TryAcquire,
		} {
			_, err := acquire(ctx)
			locked := asLocked(t, err)
			if !errors.Is(err, lock.ErrReentrant) || locked.Info == nil || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())+" has it") {
				t.Errorf("%s: %v; want ErrReentrant, and who", name, err)
			}
		}
	}
	letGo(t, held)
	letGo(t, tryHold(t, f))
	held = tryHold(t, f) // another nonce: as anybody else's
	if _, err := f.TryAcquire(ctx); errors.Is(err, lock.ErrReentrant) || asLocked(t, err).Cause != nil {
		t.Errorf("%v; want it locked, and not by a process above", err)
	}
	letGo(t, held)
	for _, odd := range []string{"", "x", "{}", `[{"path":7}]`, `[{"path":"` + f.Path + `"}]`} {
		t.Setenv("HOLDFAST_HELD", odd)
		letGo(t, tryHold(t, f))
	}
}

// TestHeldAbove_Passes: a lock that passes to another between two looks is that one's, and not the
// process's above.
func TestHeldAbove_Passes(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	held := tryHold(t, f)
	heldIn(t, held.Environ(nil))
	var next *lock.FileHold
	slow := f
	slow.Format = &lock.Format{Parse: func(data []byte) (evidence.Claim, error) {
		said := evidence.DecodeOurs(data)
		if said == nil {
			return evidence.Claim{}, errors.New("not a claim")
		}
		if next == nil {
			letGo(t, held)
			next = tryHold(t, f)
		}
		return said.Claim, nil
	}}
	if _, err := slow.TryAcquire(t.Context()); errors.Is(err, lock.ErrReentrant) || asLocked(t, err).Cause != nil {
		t.Errorf("%v; want it locked, and not by a process above", err)
	}
	letGo(t, next)
}

// TestHeldAbove_Dead: a process above that died is in nobody's way.
func TestHeldAbove_Dead(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	leaveDeadClaim(t, f.Path)
	s, err := f.Inspect(t.Context())
	if err != nil || s.State != evidence.Dead {
		t.Fatalf("%+v, %v", s, err)
	}
	t.Setenv("HOLDFAST_HELD", `[{"path":"`+f.Path+`","nonce":"`+s.Info.Nonce+`","pid":1}]`)
	takeOver(t, f.Path)
}

// TestHeldAbove_Readers: all readers of a lock file have one nonce. A process above is refused
// for as long as it is one of them.
func TestHeldAbove_Readers(t *testing.T) {
	f := queued(t)
	needsKernelList(t)
	reader := start(t, "member", f.Path)
	reader.Do("shared", "held")
	held := holdShared(t, f)
	for pid, reentrant := range map[int]bool{os.Getpid(): true, reader.Cmd.Process.Pid: true, 1 << 30: false} {
		t.Setenv("HOLDFAST_HELD", fmt.Sprintf(`[{"path":%q,"nonce":%q,"pid":%d}]`, f.Path, held.Info().Nonce, pid))
		if _, err := f.TryAcquire(t.Context()); errors.Is(err, lock.ErrReentrant) != reentrant || asLocked(t, err) == nil {
			t.Errorf("pid %d above: %v", pid, err)
		}
	}
	letGo(t, held)
	reader.Do("release", "released")
}

// TestHeldAbove_Set: a set with a lock that a process above has is refused at once, and not
// after a wait for the others.
func TestHeldAbove_Set(t *testing.T) {
	dir := t.TempDir()
	a, b := lock.File{Path: filepath.Join(dir, "a.lock")}, lock.File{Path: filepath.Join(dir, "b.lock")}
	other := start(t, "member", a.Path)
	other.Do("try", "held")
	held := tryHold(t, b)
	heldIn(t, held.Environ(nil))
	promptly(t, "AcquireAll", func() {
		wantErr(t, errOf(lock.AcquireAll(t.Context(), a, b)), lock.ErrReentrant)
	})
	letGo(t, held)
}

// TestEnviron_Deep: a process that comes from more locks than the variable names is told of the
// innermost ones, as those are what it could wait for.
func TestEnviron_Deep(t *testing.T) {
	held := tryHold(t, lock.File{Path: filepath.Join(t.TempDir(), "own")})
	defer letGo(t, held)
	var above []string
	for i := range 70 {
		above = append(above, fmt.Sprintf(`{"path":"/%d","nonce":"n","pid":1}`, i))
	}
	env := held.Environ([]string{"HOLDFAST_HELD=[" + strings.Join(above, ",") + "]"})
	var named []struct{ Path string }
	check(t, json.Unmarshal([]byte(strings.TrimPrefix(env[0], "HOLDFAST_HELD=")), &named))
	if len(named) != 64 || named[0].Path != "/7" || named[62].Path != "/69" || named[63].Path != held.Path() {
		t.Errorf("%d are named: %v", len(named), named)
	}
}
