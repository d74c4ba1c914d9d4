package lock_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// fakeHold is a hold of no lock.
type fakeHold struct {
	contexts engine.Contexts
	release  func() error
}

func (h *fakeHold) Info() evidence.Claim                           { return evidence.Claim{PID: 1} }
func (h *fakeHold) Fence() (int64, error)                          { return 1, nil }
func (h *fakeHold) Lost() <-chan struct{}                          { return h.contexts.Lost() }
func (h *fakeHold) Context(parent context.Context) context.Context { return h.contexts.Context(parent) }
func (h *fakeHold) Release() error                                 { return h.release() }

// fakeLocker grants everything, and writes down what it is asked for.
type fakeLocker struct {
	calls []string
	// acquire and try may refuse.
	acquire, try func(context.Context, lock.Key) error
	// release is what the releases return.
	release func(lock.Key) error
	// alias gives the identity of a key.
	alias func(lock.Key) any
}

func (l *fakeLocker) Acquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.get(ctx, "acquire", key, l.acquire)
}

func (l *fakeLocker) TryAcquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.get(ctx, "try", key, l.try)
}

func (l *fakeLocker) Inspect(context.Context, lock.Key) (lock.Status, error) {
	panic("not asked for")
}
func (l *fakeLocker) List(context.Context) iter.Seq2[lock.Status, error] { panic("not asked for") }

func (l *fakeLocker) identity(key lock.Key) any {
	if l.alias != nil {
		return l.alias(key)
	}
	return key
}

func (l *fakeLocker) get(ctx context.Context, how string, key lock.Key, refuse func(context.Context, lock.Key) error) (lock.Hold, error) {
	l.calls = append(l.calls, fmt.Sprint(how, " ", key))
	if engine.HoldOf(ctx, l.identity(key)) != nil {
		return nil, &lock.LockedError{Status: lock.Status{Path: key.String()}, Cause: lock.ErrReentrant}
	}
	if refuse != nil {
		if err := refuse(ctx, key); err != nil {
			return nil, err
		}
	}
	h := &fakeHold{release: func() error {
		l.calls = append(l.calls, fmt.Sprint("release ", key))
		if l.release != nil {
			return l.release(key)
		}
		return nil
	}}
	h.contexts.Begin(h, func(identity any) bool { return identity == l.identity(key) })
	return h, nil
}

func (l *fakeLocker) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(l.calls, want) {
		t.Errorf("calls: %s; want %s", strings.Join(l.calls, ", "), strings.Join(want, ", "))
	}
	l.calls = nil
}

var (
	keyA = lock.Key{Space: "s", Name: "a"}
	keyB = lock.Key{Space: "s", Name: "b"}
	keyC = lock.Key{Space: "t", Name: "a"}

	errFake = errors.New("engine is out of order")
)

func failWith(err error) func(context.Context, lock.Key) error {
	return func(context.Context, lock.Key) error { return err }
}

func TestLockerDo(t *testing.T) {
	mine := errors.New("error of the function")
	for _, fnErr := range []error{nil, mine} {
		for _, releaseErr := range []error{nil, lock.ErrLost} {
			l := &fakeLocker{release: func(lock.Key) error { return releaseErr }}
			fn := func(ctx context.Context, _ lock.Hold) error {
				that(t, engine.HoldOf(ctx, keyA) != nil, "the context does not carry the hold")
				l.calls = append(l.calls, "work")
				return fnErr
			}
			want := fnErr
			if fnErr == nil {
				want = releaseErr
			}
			equal(t, lock.Do(t.Context(), l, keyA, fn), want, "Do")
			l.wantCalls(t, "acquire s/a", "work", "release s/a")
			if acquired, err := lock.TryDo(t.Context(), l, keyA, fn); !acquired || err != want {
				t.Errorf("TryDo: %v, %v, want %v", acquired, err, want)
			}
			l.wantCalls(t, "try s/a", "work", "release s/a")
		}
	}
}

// TestLockerDo_NotAcquired: contention is an error for Do and none for TryDo; what else
// is wrong is one for both.
func TestLockerDo_NotAcquired(t *testing.T) {
	fn := func(context.Context, lock.Hold) error {
		t.Error("called without the lock")
		return nil
	}
	locked := fmt.Errorf("wrapped: %w", &lock.LockedError{Status: lock.Status{Path: "x"}})
	for _, refusal := range []error{locked, errFake} {
		l := &fakeLocker{acquire: failWith(refusal), try: failWith(refusal)}
		equal(t, lock.Do(t.Context(), l, keyA, fn), refusal, "Do")
		want := refusal
		if refusal == locked {
			want = nil
		}
		if acquired, err := lock.TryDo(t.Context(), l, keyA, fn); acquired || err != want {
			t.Errorf("TryDo: %v, %v, want %v", acquired, err, want)
		}
		l.wantCalls(t, "acquire s/a", "try s/a")
	}
}

func TestAcquireKeys(t *testing.T) {
	for _, keys := range [][]lock.Key{{keyA, keyB, keyC}, {keyC, keyB, keyA}, {keyB, keyC, keyA}} {
		l := &fakeLocker{}
		given := slices.Clone(keys)
		set := must(lock.AcquireKeys(t.Context(), l, keys...))(t)
		that(t, slices.Equal(keys, given), "the caller's keys are now %v", keys)
		for _, key := range keys {
			that(t, engine.HoldOf(set.Context(t.Context()), key) != nil, "the set's context does not carry %v", key)
		}
		noErr(t, set.Release())
		l.wantCalls(t, "acquire s/a", "acquire s/b", "acquire t/a", "release t/a", "release s/b", "release s/a")
	}
}

// TestAcquireKeys_Order: what two keys look like side by side does not matter.
func TestAcquireKeys_Order(t *testing.T) {
	l := &fakeLocker{}
	if _, err := lock.AcquireKeys(t.Context(), l, lock.Key{Space: "a/b", Name: "c"}, lock.Key{Space: "a", Name: "b/c"}, lock.Key{Space: "a", Name: "c"}); err != nil {
		t.Fatal(err) // the first two are not the same one
	}
	l.wantCalls(t, "acquire a/b/c", "acquire a/c", "acquire a/b/c")
}

func TestAcquireKeys_Fails(t *testing.T) {
	stuck := errors.New("release is out of order")
	l := &fakeLocker{
		acquire: func(_ context.Context, key lock.Key) error {
			if key == keyC {
				return errFake
			}
			return nil
		},
		release: func(key lock.Key) error {
			if key == keyB {
				return stuck
			}
			return nil
		},
	}
	set, err := lock.AcquireKeys(t.Context(), l, keyC, keyA, keyB)
	that(t, set == nil && errors.Is(err, errFake) && errors.Is(err, stuck), "%v, %v; want no set, and both errors", set, err)
	l.wantCalls(t, "acquire s/a", "acquire s/b", "acquire t/a", "release s/b", "release s/a")
	if set, err := lock.AcquireKeys(t.Context(), l, keyA, keyB, keyA); set != nil || !errors.Is(err, lock.ErrInvalidName) {
		t.Errorf("twice: %v, %v", set, err)
	}
	l.wantCalls(t)
}

// TestAcquireKeys_OneLock: two keys that an engine can't tell apart are re-entrance, and
// no wait for oneself.
func TestAcquireKeys_OneLock(t *testing.T) {
	l := &fakeLocker{alias: func(key lock.Key) any { return strings.ToLower(key.String()) }}
	set, err := lock.AcquireKeys(t.Context(), l, lock.Key{Space: "s", Name: "x"}, lock.Key{Space: "s", Name: "X"})
	that(t, set == nil && errors.Is(err, lock.ErrReentrant), "%v, %v; want ErrReentrant", set, err)
	l.wantCalls(t, "acquire s/X", "acquire s/x", "release s/X")
}

// TestAcquireKeys_LostMeanwhile: who loses one lock stops waiting for the next.
func TestAcquireKeys_LostMeanwhile(t *testing.T) {
	l := &fakeLocker{acquire: func(ctx context.Context, key lock.Key) error {
		if key == keyB {
			engine.HoldOf(ctx, keyA).(*fakeHold).contexts.Lose(lock.ErrLost)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	}}
	if set, err := lock.AcquireKeys(t.Context(), l, keyA, keyB); set != nil || !errors.Is(err, lock.ErrLost) {
		t.Errorf("%v, %v; want ErrLost", set, err)
	}
	l.wantCalls(t, "acquire s/a", "acquire s/b", "release s/a")
}

func TestAcquireWithin_Locker(t *testing.T) {
	ended := func(ctx context.Context, _ lock.Key) error { // as every engine's Acquire
		<-ctx.Done()
		return ctx.Err()
	}
	busy := failWith(&lock.LockedError{Status: lock.Status{Path: "x"}})
	late := func(ctx context.Context, _ lock.Key) error {
		<-ctx.Done()
		return &lock.LockedError{Status: lock.Status{Path: "x"}, Cause: lock.ErrTimeout}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx          context.Context
		limit        time.Duration
		acquire, try func(context.Context, lock.Key) error
		calls        []string
		want         []error // nil: held
	}{
		"0":                      {t.Context(), 0, nil, nil, []string{"try"}, nil},
		"0, busy":                {t.Context(), 0, nil, busy, []string{"try"}, []error{}},
		"negative":               {t.Context(), -1, nil, nil, []string{"acquire"}, nil},
		"enough":                 {t.Context(), time.Hour, nil, nil, []string{"acquire"}, nil},
		"enough, fails":          {t.Context(), time.Hour, failWith(errFake), nil, []string{"acquire"}, []error{errFake}},
		"waits":                  {t.Context(), time.Millisecond, late, nil, []string{"acquire"}, []error{lock.ErrTimeout}},
		"no time to look":        {t.Context(), 1, ended, nil, []string{"acquire", "try"}, nil},
		"no time to look, busy":  {t.Context(), 1, ended, busy, []string{"acquire", "try"}, []error{lock.ErrTimeout, context.DeadlineExceeded}},
		"no time to look, fails": {t.Context(), 1, ended, failWith(errFake), []string{"acquire", "try"}, []error{errFake}},
		"ended before":           {cancelled, time.Hour, ended, nil, []string{"acquire"}, []error{context.Canceled}},
	} {
		l := &fakeLocker{acquire: test.acquire, try: test.try}
		held, err := lock.AcquireWithin(test.ctx, l, keyA, test.limit)
		that(t, (held != nil) == (test.want == nil) && (err != nil) == (test.want != nil), "%s: %v, %v", name, held, err)
		for _, want := range test.want {
			wantErr(t, err, want, name)
		}
		for i := range test.calls {
			test.calls[i] += " s/a"
		}
		l.wantCalls(t, test.calls...)
	}
}
