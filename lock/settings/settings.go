// Package settings has what users of a program may want to set for its locks, by
// environment variables: how long to wait for a lock, and how often to attempt what
// failed.
package settings

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// Settings are what users of a program may want to set for its locks.
type Settings struct {
	// Timeout is how long to wait for a lock; 0 tries once. See
	// lock.AcquireWithin.
	Timeout time.Duration
	Retry   Retry
}

// DefaultTimeout is Settings.Timeout where the environment says nothing.
const DefaultTimeout = 5 * time.Second

// Values beyond these are mistakes.
const (
	maxTimeout  = 365 * 24 * time.Hour
	maxAttempts = 1_000_000
	maxFactor   = 1000.0
)

// validPrefix matches names that every environment takes.
var validPrefix = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// FromEnv reads the settings from the environment, for a program's prefix
// such as "JIT":
//
//	JIT_LOCK_TIMEOUT             seconds, 0 tries once     5
//	JIT_RETRY_MAX_ATTEMPTS       1 or more                 3
//	JIT_RETRY_INITIAL_DELAY_MS   milliseconds, above 0     50
//	JIT_RETRY_MAX_DELAY_MS       milliseconds, above 0     2000
//	JIT_RETRY_BACKOFF_FACTOR     1 or more                 2.0
//
// The first and the last may have decimals. A variable that is unset or empty has its
// default. One that is no such number, or out of range, is an error that names it. A prefix
// that is no name for a variable is lock.ErrInvalidName. The variables and their defaults
// are those of jit, an issue tracker for agents (see FORMATS.md).
func FromEnv(prefix string) (Settings, error) {
	if !validPrefix.MatchString(prefix) {
		return Settings{}, fmt.Errorf("%w: prefix %q for environment variables", lock.ErrInvalidName, prefix)
	}
	env := environment{prefix: prefix}
	s := Settings{
		Timeout: env.duration("LOCK_TIMEOUT", time.Second, 0, DefaultTimeout),
		Retry: Retry{
			MaxAttempts:  int(env.number("RETRY_MAX_ATTEMPTS", 1, maxAttempts, float64(DefaultRetry.MaxAttempts), true)),
			InitialDelay: env.duration("RETRY_INITIAL_DELAY_MS", time.Millisecond, 1, DefaultRetry.InitialDelay),
			MaxDelay:     env.duration("RETRY_MAX_DELAY_MS", time.Millisecond, 1, DefaultRetry.MaxDelay),
			Factor:       env.number("RETRY_BACKOFF_FACTOR", 1, maxFactor, DefaultRetry.Factor, false),
		},
	}
	if env.err != nil {
		return Settings{}, env.err
	}
	return s, nil
}

// environment reads numbers, and keeps the first error.
type environment struct {
	prefix string
	err    error
}

func (e *environment) duration(name string, unit time.Duration, least float64, otherwise time.Duration) time.Duration {
	most := float64(maxTimeout / unit)
	// Whole milliseconds; seconds may have decimals.
	n := e.number(name, least, most, float64(otherwise)/float64(unit), unit == time.Millisecond)
	return time.Duration(n * float64(unit))
}

func (e *environment) number(name string, least, most, otherwise float64, whole bool) float64 {
	name = e.prefix + "_" + name
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseFloat(text, 64)
	kind := "a number"
	if whole {
		kind = "a whole number"
	}
	// Written so that NaN is out of range.
	if !(err == nil && n >= least && n <= most) || whole && n != float64(int64(n)) {
		if e.err == nil {
			e.err = fmt.Errorf("%s=%q: want %s from %g to %g", name, text, kind, least, most)
		}
		return otherwise
	}
	return n
}
