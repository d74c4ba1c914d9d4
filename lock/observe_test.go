package lock_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// recorder keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	events []lock.Event
}

func (r *recorder) Observe(e lock.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) all() []lock.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]lock.Event(nil), r.events...)
}

// String tells the events as "acquired a, released a".
func (r *recorder) String() string {
	var told []string
	for _, e := range r.all() {
		told = append(told, string(e.Kind)+" "+filepath.Base(e.Path))
	}
	return strings.Join(told, ", ")
}

// observed gives a lock with a recorder.
func observed(t *testing.T) (lock.File, *recorder) {
	t.Helper()
	seen := &recorder{}
	return lock.File{Path: filepath.Join(t.TempDir(), "l"), Cmd: "observed", Observe: seen.Observe}, seen
}

// told checks the sequence of events, and what all of them have.
func told(t *testing.T, f lock.File, seen *recorder, want string) []lock.Event {
	t.Helper()
	if got := seen.String(); got != want {
		t.Fatalf("told: %s; want: %s", got, want)
	}
	for _, e := range seen.all() {
		that(t, e.Path == f.Path && e.Cmd == f.Cmd, "%s: path %q, cmd %q", e.Kind, e.Path, e.Cmd)
		if e.Kind != lock.EventWaiting && e.Kind != lock.EventReclaimed && (e.Info != nil || e.Evidence != "") {
			t.Errorf("%s names a holder: %+v, %s", e.Kind, e.Info, e.Evidence)
		}
	}
	return seen.all()
}

// span checks a duration against a shorter and a longer one that were measured
// inside and around it.
func span(t *testing.T, e lock.Event, inside, around time.Duration) {
	t.Helper()
	if e.Duration < inside || e.Duration > around || e.Duration <= 0 {
		t.Errorf("%s: duration %s; measured between %s and %s", e.Kind, e.Duration, inside, around)
	}
}

func TestObserver_Uncontended(t *testing.T) {
	for _, shared := range []bool{false, true} {
		f, seen := observed(t)
		begun := time.Now()
		acquire := inMode(f, shared)
		held := must(acquire(t.Context()))(t)
		had := time.Now()
		took := time.Since(begun)
		inside := time.Since(had)
		letGo(t, held)
		events := told(t, f, seen, "acquired l, released l")
		span(t, events[0], 1, took)
		span(t, events[1], inside, time.Since(begun))
		letGo(t, held)
		told(t, f, seen, "acquired l, released l") // once
	}
}

// TestObserver_NotHad: trying and failing is no event, as nothing became of the
// lock.
func TestObserver_NotHad(t *testing.T) {
	f, seen := observed(t)
	held := tryHold(t, lock.File{Path: f.Path})
	if _, err := f.TryAcquire(t.Context()); err == nil {
		t.Fatal("two holders")
	}
	told(t, f, seen, "")
	letGo(t, held)
}

func TestObserver_Contended(t *testing.T) {
	f, seen := observed(t)
	other := start(t, "holder", f.Path)
	other.Do("try", "held")
	begun := time.Now()
	came := beginAcquire(t, t.Context(), f)
	eventually(t, "the wait is told", func() bool { return seen.String() != "" })
	waiting := told(t, f, seen, "waiting l")[0]
	if waiting.Info == nil || waiting.Info.PID != other.Cmd.Process.Pid || waiting.Info.Cmd != "holder" ||
		waiting.Evidence != evidence.KernelLockHeld {
		t.Errorf("waiting for %+v, %s", waiting.Info, waiting.Evidence)
	}
	noticed := time.Now()
	inside := time.Since(noticed)
	other.Do("release", "released")
	held := getHeld(t, came)
	around := time.Since(begun)
	events := told(t, f, seen, "waiting l, acquired l")
	span(t, events[1], inside, around)
	letGo(t, held)
	told(t, f, seen, "waiting l, acquired l, released l")
}

// TestObserver_WaitingBehindOwn: who waits behind a goroutine of the same process
// is told of it, once, and not of locks that they did not get.
func TestObserver_WaitingBehindOwn(t *testing.T) {
	f, seen := observed(t)
	held := tryHold(t, lock.File{Path: f.Path, Cmd: "first"})
	first := beginAcquire(t, t.Context(), lock.File{Path: f.Path})
	ctx, cancel := withCancel(t)
	second := beginAcquire(t, ctx, f)
	eventually(t, "the wait is told", func() bool { return seen.String() == "waiting l" })
	cancel()
	if err := get(t, second).err; err == nil {
		t.Fatal("two holders")
	}
	if h := told(t, f, seen, "waiting l")[0].Info; h == nil || h.Nonce != held.Info().Nonce {
		t.Errorf("waiting for %+v", h)
	}
	letGo(t, held)
	letGo(t, getHeld(t, first))
	told(t, f, seen, "waiting l")
}

// TestObserver_Reclaimed: the dead holder and the evidence are told before the
// acquisition.
func TestObserver_Reclaimed(t *testing.T) {
	t.Run("kernel lock free", func(t *testing.T) {
		f, seen := observed(t)
		dead := start(t, "holder", f.Path)
		dead.Do("try", "held")
		dead.Kill()
		letGo(t, tryHold(t, f))
		e := told(t, f, seen, "reclaimed l, acquired l, released l")[0]
		if e.Info == nil || e.Info.PID != dead.Cmd.Process.Pid || e.Info.Cmd != "holder" || e.Evidence != evidence.KernelLockFree {
			t.Errorf("from %+v, %q", e.Info, e.Evidence)
		}
	})
	t.Run("fallback", func(t *testing.T) {
		f, seen := observed(t)
		putClaim(t, f.Path, formerClaim(t))
		letGo(t, tryHold(t, f.WithoutKernelLock()))
		e := told(t, f, seen, "reclaimed l, acquired l, released l")[0]
		that(t, e.Info != nil && e.Info.Nonce == "DEAD" && e.Evidence == evidence.PIDReused, "from %+v, %q", e.Info, e.Evidence)
	})
	t.Run("aged and unreadable", func(t *testing.T) {
		f, seen := observed(t)
		f.StaleAfter = time.Minute
		putFile(t, f.Path, []byte("garbage"), time.Now().Add(-time.Hour))
		letGo(t, tryHold(t, f))
		e := told(t, f, seen, "reclaimed l, acquired l, released l")[0]
		that(t, e.Info == nil && e.Evidence == evidence.Aged, "from %+v, %q", e.Info, e.Evidence)
	})
}

// An Observe function that panics leaves nothing locked, and its panic goes to the caller.
func TestObserver_Panics(t *testing.T) {
	for _, kind := range []lock.EventKind{lock.EventWaiting, lock.EventAcquired, lock.EventReclaimed} {
		f := lock.File{Path: filepath.Join(t.TempDir(), "l")}
		release := func() {}
		switch kind {
		case lock.EventWaiting:
			holder := start(t, "member", f.Path)
			holder.Do("try", "held")
			release = func() { holder.Do("release", "released") }
		case lock.EventReclaimed:
			leaveDeadClaim(t, f.Path)
		}
		noisy := f
		noisy.Observe = func(e lock.Event) {
			if e.Kind == kind {
				panic(kind)
			}
		}
		func() {
			defer func() {
				if p := recover(); p != kind {
					t.Errorf("%s: recovered %v", kind, p)
				}
			}()
			_, err := noisy.Acquire(t.Context())
			t.Errorf("%s: no panic; %v", kind, err)
		}()
		release()
		letGo(t, tryHold(t, f))
		wantFree(t, f.Path)
	}
}

func TestObserver_Lost(t *testing.T) {
	f, seen := observed(t)
	begun := time.Now()
	held := tryHold(t, f)
	had := time.Now()
	check(t, os.Remove(f.Path))
	inside := time.Since(had)
	wantErr(t, held.Release(), lock.ErrLost, "Release")
	events := told(t, f, seen, "acquired l, lost l") // and not released
	span(t, events[1], inside, time.Since(begun))

	// In fallback mode the holder itself finds out.
	f, seen = observed(t)
	f.StaleAfter = 30 * time.Millisecond
	held = tryHold(t, f.WithoutKernelLock())
	check(t, os.Remove(f.Path))
	promptly(t, "the loss", func() { <-held.Lost() })
	wantErr(t, held.Release(), lock.ErrLost, "Release")
	told(t, f, seen, "acquired l, lost l")
}

// TestLogTo reads the logger's JSON back.
func TestLogTo(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	holder := &evidence.Claim{PID: 42, Hostname: "box", Cmd: "push\x1b[31m", CreatedAt: since}
	group := map[string]any{"pid": 42.0, "host": "box", "cmd": "push\x1b[31m", "since": "2026-01-02T03:04:05Z"}
	for _, test := range []struct {
		event lock.Event
		want  map[string]any
	}{
		{lock.Event{Kind: lock.EventWaiting, Status: lock.Status{Path: "/l", Info: holder, Evidence: evidence.KernelLockHeld}, Cmd: "c"},
			map[string]any{"level": "DEBUG", "msg": "lock waiting", "path": "/l", "cmd": "c", "holder": group, "evidence": "kernel lock held"}},
		{lock.Event{Kind: lock.EventWaiting, Status: lock.Status{Path: "/l"}},
			map[string]any{"level": "DEBUG", "msg": "lock waiting", "path": "/l"}},
		{lock.Event{Kind: lock.EventAcquired, Status: lock.Status{Path: "/l"}, Cmd: "c", Duration: time.Second},
			map[string]any{"level": "DEBUG", "msg": "lock acquired", "path": "/l", "cmd": "c", "duration": 1e9}},
		{lock.Event{Kind: lock.EventReleased, Status: lock.Status{Path: "/l"}, Duration: 2},
			map[string]any{"level": "DEBUG", "msg": "lock released", "path": "/l", "duration": 2.0}},
		{lock.Event{Kind: lock.EventReclaimed, Status: lock.Status{Path: "/l", Info: holder, Evidence: evidence.ProcessGone}},
			map[string]any{"level": "WARN", "msg": "lock reclaimed", "path": "/l", "holder": group, "evidence": "process gone"}},
		{lock.Event{Kind: lock.EventLost, Status: lock.Status{Path: "/l"}, Cmd: "c", Duration: 3},
			map[string]any{"level": "WARN", "msg": "lock lost", "path": "/l", "cmd": "c", "duration": 3.0}},
	} {
		var out bytes.Buffer
		lock.LogTo(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))(test.event)
		if bytes.ContainsRune(out.Bytes(), '\x1b') {
			t.Errorf("a raw control character: %q", out.Bytes())
		}
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", out.Bytes(), err)
		}
		delete(got, "time")
		that(t, reflect.DeepEqual(got, test.want), "logged %v\nwant   %v", got, test.want)
	}
}

// TestLogTo_Levels: at the usual level only what is amiss is logged, by a
// real lock.
func TestLogTo_Levels(t *testing.T) {
	var out bytes.Buffer
	f := lock.File{Path: filepath.Join(t.TempDir(), "l"), Observe: lock.LogTo(slog.New(slog.NewTextHandler(&out, nil)))}
	letGo(t, tryHold(t, f))
	if out.Len() != 0 {
		t.Errorf("logged %q", out.String())
	}
	putClaim(t, f.Path, formerClaim(t))
	letGo(t, tryHold(t, f))
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "level=WARN msg=\"lock reclaimed\" path=") {
		t.Errorf("logged %q", out.String())
	}
}
