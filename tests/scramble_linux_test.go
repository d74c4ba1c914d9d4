package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

func init() { roles["scramble"] = scramble }

// scramble acquires the lock at args[0] in all ways again and again, until it is killed, and
// proves each time by the oracle at args[1] that it is alone, or among readers. It says "+" for
// each time, and "lost" for a lock that was taken from it. Where a third argument says so, the
// filesystem may fail.
func scramble(args []string) error {
	fails := func(err error) bool { return len(args) > 2 && errors.Is(err, syscall.EIO) }
	f := lock.File{Path: args[0], Cmd: "scramble"}
	o, err := openOracle(args[1])
	if err != nil {
		return err
	}
	for {
		shared := rand.IntN(2) == 0
		held, err := scrambleOnce(f, shared)
		var locked *lock.LockedError
		if errors.As(err, &locked) || fails(err) {
			continue
		} else if err != nil {
			return err
		}
		// On a filesystem that is not trusted shared means exclusive.
		if err := o.enter(shared && held.Info().Mode == "shared"); err != nil {
			return err
		}
		if n := rand.IntN(4); n > 0 {
			time.Sleep(rand.N(time.Duration(n*n) * 100 * time.Microsecond))
		}
		if err := o.leave(); err != nil {
			return err
		}
		said := "+"
		if err := held.Release(); errors.Is(err, lock.ErrLost) {
			said = "lost"
		} else if err != nil && !fails(err) {
			return err
		}
		fmt.Println(said)
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	all := must(os.ReadDir(dir))(t)
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}
