package locktest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
)

var keyTests = []test{
	{"Distinct", keysAreDistinct},
	{"Spaces", spacesAreDistinct},
	{"Odd", oddKeys},
	{"Empty", emptyKeys}, // guards: S1
}

func keysAreDistinct(s *subtest) {
	a, b := s.key(), s.key()
	one, other := s.acquire(a), s.acquire(b)
	s.wantHeld(a)
	s.wantHeld(b)
	s.release(one)
	s.wantFree(a)
	s.wantHeld(b)
	s.release(other)
	s.wantFree(b)
}

// spacesAreDistinct: the same name in two spaces is two locks, and a space does not run
// into a name.
func spacesAreDistinct(s *subtest) {
	key := s.key()
	a := s.acquire(key)
	other := lock.Key{Space: key.Space + "-other", Name: key.Name}
	b, err := s.call(s.locker.TryAcquire, s.ctx, other)
	if err != nil {
		s.Fatalf("%v while %v is held: %v", other, key, err)
	}
	s.held(b)
	s.release(a)
	s.wantFree(key)
	s.wantHeld(other)
	s.release(b)
	s.wantFree(other)
}

// odd are names that an engine may have to encode. Each is a lock of its own, or refused
// before anything is taken.
var odd = []string{
	"x", "X", " x", "x ", "x.", ".x", "x.lock", "x.lock.flock", "x.reclaim", "%78", "%", "x%",
	".", "..", "../x", "/x", "x/", "x/y", `x\y`, "x'; DROP TABLE x; --", `"x"`, "x:y", "x*y?", "NUL", "con.txt",
	"-1", "0", "00", "9223372036854775808", "1e3",
	"é", "e\u0301", "日本語のロック", "🔒", "\u202e", "x\ny", "x\ty", "x\x00y", "\x00", "\xff\xfe", "\x7f",
	strings.Repeat("x", 60), strings.Repeat("x", 59) + "y", strings.Repeat("é", 30), strings.Repeat("%", 60),
}

// oddKeys holds a few of them at a time, to show that each is a lock of its own: an engine
// may have only so many connections.
func oddKeys(s *subtest) {
	const together = 8
	salt := s.key()
	var keys []lock.Key
	for _, name := range odd {
		// They are in one space with others' tests, but nobody else uses such names.
		keys = append(keys, lock.Key{Space: salt.Space, Name: name})
	}
	for _, space := range []string{"..", "x/y", "é", "x y", "%", strings.Repeat("s", 60)} {
		keys = append(keys, lock.Key{Space: space + salt.Name, Name: "x"}, lock.Key{Space: salt.Name + space, Name: "x"})
	}
	keys = append(keys, lock.Key{Space: salt.Name + "/x", Name: "y"}, lock.Key{Space: salt.Name, Name: "x/y"})
	refused := 0
	var holds []lock.Hold
	for _, key := range keys {
		name := fmt.Sprintf("%q", key)
		held, err := s.call(s.locker.Acquire, s.ctx, key)
		if errors.Is(err, lock.ErrInvalidName) {
			s.wantNoHold(held, err)
			refused++
			again, err := s.call(s.locker.TryAcquire, s.ctx, key)
			s.wantNoHold(again, err)
			s.wantIs(err, lock.ErrInvalidName)
			continue
		} else if err != nil {
			s.Fatalf("%s: %v", name, err)
		}
		s.held(held)
		if again, err := s.call(s.locker.TryAcquire, s.ctx, key); err == nil {
			_ = again.Release()
			s.Errorf("%s is acquired twice", name)
		}
		if n := holders(s.listed(key)); n != 1 {
			s.Errorf("%s is listed with %d holders, want one", name, n)
		}
		if holds = append(holds, held); len(holds) == together {
			s.release(holds[0])
			holds = holds[1:]
		}
	}
	for _, h := range holds {
		s.release(h)
	}
	s.Logf("%d of %d odd keys are refused", refused, len(keys))
}

func emptyKeys(s *subtest) {
	key := s.key()
	for _, key := range []lock.Key{{}, {Space: key.Space}, {Name: key.Name}} {
		held, err := s.call(s.locker.Acquire, s.ctx, key)
		s.wantNoHold(held, err)
		s.wantIs(err, lock.ErrInvalidName)
		held, err = s.call(s.locker.TryAcquire, s.ctx, key)
		s.wantNoHold(held, err)
		s.wantIs(err, lock.ErrInvalidName)
	}
	s.wantFree(key)
}
