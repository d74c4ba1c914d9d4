package testkit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Check ends the test if a step on the way has failed. What is said before the error is put
// together as by fmt.Println, here and below.
func Check(t testing.TB, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s%v", said(what), err)
	}
}

// Must is for a step that gives something: must(os.ReadFile(path))(t).
func Must[T any](got T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Check(t, err)
		return got
	}
}

// ErrOf is the error of a step that gives something, too.
func ErrOf(_ any, err error) error { return err }

// NoErr wants no error. The test goes on if there is one, as with all that follow.
func NoErr(t testing.TB, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s%v", said(what), err)
	}
}

// WantErr wants an error that is another, by errors.Is.
func WantErr(t testing.TB, err, want error, what ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%serror is %v, want %v", said(what), err, want)
	}
}

// That wants what holds. The message is for where it does not.
func That(t testing.TB, holds bool, message string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(message, args...)
	}
}

// NotYet wants a channel that is to be closed at some time to be open still.
func NotYet(t testing.TB, c <-chan struct{}, message string, args ...any) {
	t.Helper()
	select {
	case <-c:
		t.Errorf(message, args...)
	default:
	}
}

// Equal wants two values that are the same by ==.
func Equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%sgot %s, want %s", said(what), shown(got), shown(want))
	}
}

// Contains wants a part to be in a text.
func Contains(t testing.TB, text, part string, what ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%sgot %q, want %q in it", said(what), text, part)
	}
}

// said is what stands before a result.
func said(what []any) string {
	if len(what) == 0 {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintln(what...), "\n") + ": "
}

// shown is a value in a message.
func shown(v any) string {
	if text, ok := v.(string); ok {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%+v", v)
}
